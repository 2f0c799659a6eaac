import { bounds, fitsUtf8, type JobRef, payloadText } from '../../protocol/index.ts';
import type { Job } from '../job.ts';
import { bytesOf, type FileTicket, type FileUploadAnswer, type PayloadAnswer } from '../rpc.ts';
import { type Core, findJob, storeOf } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';
import { readPayload } from '../store/jobs-table.ts';
import { claimByToken } from './claim.ts';

/**
 * Serves payloads and results by reference. What is too large for a frame goes over HTTP; its address grants access,
 * since a base worker sends no token along. The key in an address has three parts: the MAC of the queue's id, by
 * which the gateway rejects made-up keys (protocol/file-keys.ts); the job's part, which stays the same, so that only a
 * worker that once had the job learns that another has it now; and the attempt's part, made anew for each attempt. A
 * key is void as soon as another attempt begins or the job is settled, so it needs no date.
 *
 * The object of files holds the bytes (files/object.ts); a job names its files. A result file belongs to the attempt
 * that put it and is forgotten with that attempt: a `job_result_ref` of the same attempt settles the job with it.
 */

/** The addresses at which one attempt may fetch its payload and put its result. */
export interface FileAddresses {
  payload: string;
  result: string;
}

/** Hex digits of the job's part of a key, and of the attempt's: 128 bits each, made of four numbers. */
const PART_DIGITS = 32;

/** Makes the key of a job's next attempt. @param before the key of its last attempt; null if it had none */
export function newFileKey(core: Core, before: string | null): string {
  return (before?.slice(0, -PART_DIGITS) || core.settings.file_key_mac + randomHex(core)) + randomHex(core);
}

function randomHex(core: Core): string {
  return word(core) + word(core) + word(core) + word(core);
}

/** Makes eight random hex digits; the ninth, which is cut off, keeps the zeros at their front. */
function word({ random }: Core): string {
  return (2 ** 32 + Math.floor(random() * 2 ** 32)).toString(16).slice(1);
}

function isOfSameJob(one: string, other: string): boolean {
  return one.slice(0, -PART_DIGITS) === other.slice(0, -PART_DIGITS);
}

/**
 * Returns the addresses in the form that this worker understands: relative to the queue's for an extended peer, whole
 * for a base worker. Null for a base worker whose connection does not know which address was dialled.
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

/** Says whether a text is too long for a frame, so that the worker must fetch it. */
export function isLarge(text: string): boolean {
  return !fitsUtf8(text, bounds.INLINE_BYTES);
}

/** Returns the payload of an attempt, in the form in which it was submitted. */
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
  // RPC carries 32 MiB, and a text may take two bytes a character there.
  const payload = job.mode === 'waiting' ? { bytes: bytesOf(text) } : { text };
  return { ok: true, job_type, payload };
}

/** Says whether this attempt may put its result into a file now. */
export function mayStoreResult(core: Core, ticket: FileTicket): FileUploadAnswer {
  return judge(core, core.stored.find(ticket.job_id), ticket) ?? { ok: true };
}

/** Notes the file that holds this attempt's result until the worker announces the result; a newer file replaces it. */
export function storeResult(core: Core, ticket: FileTicket, file: string): FileUploadAnswer {
  const answer = mayStoreResult(core, ticket);
  if (answer.ok) noteResult(core, ticket, file);
  return answer;
}

/** Says whether a result of this attempt would settle a stored job. */
export function mayHaveResult(core: Core, attempt: JobRef): boolean {
  const claim = claimByToken(core.stored.find(attempt.job_id), attempt);
  return claim === 'held' || claim === 'lapsed';
}

/**
 * Notes the file of a result that came in a frame. No answer is needed: the settlement, which is judged, follows in the
 * same commit.
 */
export function noteResult(core: Core, attempt: JobRef, file: string): void {
  const job = core.stored.find(attempt.job_id);
  if (job !== null && mayHaveResult(core, attempt)) core.stored.setResultFile(job, file);
}

/** An unsettled job keeps its files for at least this long, ms; then the object of files asks again. */
const UNSETTLED_MS = 3_600_000;
/** A settled job's files outlive its retention by this margin, ms, since the queue may forget the job a little late. */
const MARGIN_MS = 60_000;

/** Answers for each file until when its job needs it, epoch ms, as `JobFiles` specifies; null if the job does not. */
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
