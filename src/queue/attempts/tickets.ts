import { fitsUtf8, limits, payloadText } from '../../protocol/index.ts';
import { basePayload } from '../peers/job-frame.ts';
import type { FileAnswer, FileTicket, FileUploadAnswer } from '../rpc.ts';
import type { Job } from '../state/job.ts';
import { type Core, findJob, storeOf } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';
import { beginFile, keepUpload, payloadFile } from '../store/blob-table.ts';
import { readPayload } from '../store/jobs-table.ts';
import { insertUpload } from '../store/uploads-table.ts';
import { claimByToken } from './claim.ts';

/**
 * Payloads and results by reference: what is too large for a frame goes over HTTP, and its address is the
 * right to it; a base worker sends no token along. The key in an address has three parts: the MAC of the queue's id,
 * by which the gateway rejects made-up keys (protocol/file-keys.ts); the job's, which stays the same, so that only
 * who was given the job hears that it went to another; and the attempt's, made anew each time. A key is void as soon
 * as another attempt begins or the job is settled, so it needs no date.
 *
 * An upload is kept beside its job until a `job_result_ref` of the same attempt settles the job with it, or
 * until the job is settled in any other way. Long texts lie in pieces in rows or, where a bucket is bound, there
 * (blob-table.ts).
 */

/** Where one attempt may fetch its payload and put its result. */
export interface FileAddresses {
  payload: string;
  result: string;
}

/** Hex digits of the parts of a key that belong to the job and to the attempt: 128 bits each. */
const PART_DIGITS = 32;

/**
 * The key of a job's next attempt.
 * @param before key of its last attempt; null: there was none
 */
export function newFileKey(core: Core, before: string | null): string {
  return (before?.slice(0, -PART_DIGITS) || core.settings.file_key_mac + randomHex(core)) + randomHex(core);
}

function randomHex(core: Core): string {
  const word = () => Math.floor(core.random() * 2 ** 32);
  return Array.from({ length: PART_DIGITS / 8 }, () => word().toString(16).padStart(8, '0')).join('');
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

type Rejection = Extract<FileAnswer, { ok: false }>;

/** A result in the bucket. */
interface PutResult {
  key: string;
  /** For when it took too long to be put. */
  text(): string;
}

/** Whether a text is better fetched than sent in a frame. */
export function isLarge(text: string): boolean {
  return !fitsUtf8(text, limits.INLINE_BYTES);
}

/**
 * The payload, or the key of the bucket under which it lies as it was submitted.
 * @param form `base`: as a worker that speaks only the base takes it
 */
export function readFile(
  core: Core,
  ticket: FileTicket,
  form: 'own' | 'base',
): FileAnswer | { ok: true; key: string; job_type: string } {
  const found = payloadOf(core, ticket);
  if ('reason' in found) return found;
  const { job_type, payload } = found;
  if (payload === null) {
    const file = payloadFile(core.sql, ticket.job_id);
    return file ? { ok: true, key: file.key, job_type } : { ok: false, reason: 'unknown' };
  }
  const text = form === 'base' ? basePayload(job_type, payload) : payload;
  return text === null ? { ok: false, reason: 'unknown' } : { ok: true, text };
}

/** Whether a result may be put beside its job now. */
export function mayStoreFile(core: Core, ticket: FileTicket): FileUploadAnswer {
  return judge(core, core.stored.find(ticket.job_id), ticket) ?? { ok: true };
}

/** A result is about to be put into the bucket, if it may be. */
export function beginUpload(core: Core, ticket: FileTicket, key: string): FileUploadAnswer {
  const answer = mayStoreFile(core, ticket);
  if (answer.ok) beginFile(core, { key, owner: { kind: 'job', id: ticket.job_id } });
  return answer;
}

/** Keeps a result, or where it was put, until it is announced; a repeated upload replaces the first. */
export function storeFile(core: Core, ticket: FileTicket, result: string | PutResult): FileUploadAnswer {
  const row = core.stored.find(ticket.job_id);
  const rejection = judge(core, row, ticket);
  if (rejection) return rejection;
  core.stored.uploads.drop(ticket.job_id);
  core.stored.uploads.put(ticket.job_id);
  if (typeof result !== 'string' && keepUpload(core, result.key, ticket.fence_token)) return { ok: true };
  const text = typeof result === 'string' ? result : result.text();
  insertUpload(core.sql, ticket.job_id, ticket.fence_token, text);
  return { ok: true };
}

/** @returns a payload that is null lies in the bucket */
function payloadOf(core: Core, ticket: FileTicket): { job_type: string; payload: string | null } | Rejection {
  const job = findJob(core, ticket.job_id);
  const rejection = judge(core, job, ticket);
  if (rejection !== null || job === null) return rejection ?? { ok: false, reason: 'unknown' };
  const payload = job.mode === 'waiting' ? payloadText(job.payload) : readPayload(core.sql, job.id);
  return { job_type: job.job_type, payload };
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
