import { fitsUtf8, type JobRef, limits, payloadText } from '../../protocol/index.ts';
import { bytesOf, type FileTicket, type FileUploadAnswer, type PayloadAnswer } from '../rpc.ts';
import type { Job } from '../state/job.ts';
import { type Core, findJob, storeOf } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';
import { readPayload } from '../store/jobs-table.ts';
import { claimByToken } from './claim.ts';

/**
 * Payloads and results by reference: what is too large for a frame goes over HTTP, and its address is the right to it;
 * a base worker sends no token along. The key in an address has three parts: the MAC of the queue's id, by which the
 * gateway rejects made-up keys (protocol/file-keys.ts); the job's, which stays the same, so that only a worker that
 * once had the job learns that another has it now; and the attempt's, made anew for each. A key is void as soon as
 * another attempt begins or the job is settled, so it needs no date.
 *
 * The bytes lie with the object of files (files/object.ts); a job names its files. A result is named by the attempt
 * that put it, and forgotten with it: a `job_result_ref` of the same attempt settles the job with it.
 */

/** Where one attempt may fetch its payload and put its result. */
export interface FileAddresses {
  payload: string;
  result: string;
}

/** Hex digits of the parts of a key that belong to the job and to the attempt: 128 bits each, four numbers. */
const PART_DIGITS = 32;

/**
 * The key of a job's next attempt.
 * @param before key of its last attempt; null: there was none
 */
export function newFileKey(core: Core, before: string | null): string {
  return (before?.slice(0, -PART_DIGITS) || core.settings.file_key_mac + randomHex(core)) + randomHex(core);
}

function randomHex(core: Core): string {
  return word(core) + word(core) + word(core) + word(core);
}

/** Eight digits: the ninth, which is cut off, keeps the zeros before the others. */
function word({ random }: Core): string {
  return (2 ** 32 + Math.floor(random() * 2 ** 32)).toString(16).slice(1);
}

function isOfSameJob(one: string, other: string): boolean {
  return one.slice(0, -PART_DIGITS) === other.slice(0, -PART_DIGITS);
}

/**
 * The addresses in the form this worker understands: relative to the queue's for an extended peer, whole for one of
 * the base. Null for a base worker whose connection does not tell what it dialled.
 */
export function fileAddresses(core: Core, worker: Worker, ticket: FileTicket): FileAddresses | null {
  const { connection } = worker;
  const { resolvesAddresses } = profileOf(worker);
  const query = `queue_id=${encodeURIComponent(core.settings.queue_id)}&fence_token=${ticket.fence_token}&key=${ticket.key}${resolvesAddresses ? '' : '&form=base'}`;
  const address = (what: string) => `jobs/${encodeURIComponent(ticket.job_id)}/${what}?${query}`;
  const relative = { payload: address('payload'), result: address('result') };
  if (resolvesAddresses) return relative;
  if (!connection.origin) return null;
  return {
    payload: `${connection.origin}/${relative.payload}`,
    result: `${connection.origin}/${relative.result}`,
  };
}

type Rejection = Extract<FileUploadAnswer, { ok: false }>;

/** Whether a text is too long for a frame, so that the worker fetches it. */
export function isLarge(text: string): boolean {
  return !fitsUtf8(text, limits.INLINE_BYTES);
}

/** The payload of an attempt, in the form in which it was submitted. */
export function payloadOf(core: Core, ticket: FileTicket): PayloadAnswer {
  const job = findJob(core, ticket.job_id);
  const rejection = judge(core, job, ticket);
  if (rejection !== null || job === null) return rejection ?? { ok: false, reason: 'unknown' };
  const { job_type } = job;
  if (job.mode === 'stored' && job.payload_file !== null) {
    return { ok: true, job_type, payload: { file: job.payload_file } };
  }
  const text = job.mode === 'waiting' ? payloadText(job.payload) : readPayload(core.sql, job.id);
  if (text === null) return { ok: false, reason: 'unknown' };
  // RPC carries 32 MiB, where a text may have two bytes a character.
  const payload = job.mode === 'waiting' ? { bytes: bytesOf(text) } : { text };
  return { ok: true, job_type, payload };
}

/** Whether this attempt may put its result into a file now. */
export function mayStoreResult(core: Core, ticket: FileTicket): FileUploadAnswer {
  return judge(core, core.stored.find(ticket.job_id), ticket) ?? { ok: true };
}

/** Notes the file that holds the result of this attempt, until the worker announces it; a newer file replaces it. */
export function storeResult(core: Core, ticket: FileTicket, file: string): FileUploadAnswer {
  const answer = mayStoreResult(core, ticket);
  if (answer.ok) noteResult(core, ticket, file);
  return answer;
}

/** Whether a result of this attempt would settle a stored job. */
export function mayHaveResult(core: Core, attempt: JobRef): boolean {
  const claim = claimByToken(core.stored.find(attempt.job_id), attempt);
  return claim === 'held' || claim === 'lapsed';
}

/**
 * The same as `storeResult` for a result that came in a frame. Its settlement, which is judged, follows in the same
 * commit.
 */
export function noteResult(core: Core, attempt: JobRef, file: string): void {
  const job = core.stored.find(attempt.job_id);
  if (job !== null && mayHaveResult(core, attempt)) core.stored.setResultFile(job, file);
}

/** A job that is not settled keeps its files for at least this long, ms; then the object of files asks again. */
const UNSETTLED_MS = 3_600_000;
/** The queue may forget a job a little after its time, ms. */
const MARGIN_MS = 60_000;

/** As `JobFiles` says. */
export function filesKeptUntil(
  { stored, settings, now }: Core,
  files: readonly { file: string; job: string }[],
): (number | null)[] {
  return files.map(({ file, job }) => {
    const row = stored.find(job);
    if (row === null || (row.payload_file !== file && row.result_file !== file)) return null;
    if (row.settled_at === null) return now() + UNSETTLED_MS;
    return Math.max(row.settled_at + settings.retention_seconds * 1000, now()) + MARGIN_MS;
  });
}

function judge(core: Core, job: Job | null, ticket: FileTicket): Rejection | null {
  const claim = claimByToken(job, ticket);
  const key = job && storeOf(core, job).fileKey(job);
  if (claim === 'unknown' || key === null || !isOfSameJob(key, ticket.key)) {
    return { ok: false, reason: 'unknown' };
  }
  if (claim !== 'held' && claim !== 'lapsed') return { ok: false, reason: 'stale' };
  return key === ticket.key ? null : { ok: false, reason: 'unknown' };
}
