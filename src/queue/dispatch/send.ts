import { textWithTarget } from '../../aliases/rename.ts';
import { bounds, type JobTrace, payloadText, unpack } from '../../protocol/index.ts';
import { accountOf } from '../attempts/account.ts';
import { leaseSecondsFor, unheardLimitMs } from '../attempts/connection.ts';
import { failAttempt, revoke } from '../attempts/end.ts';
import { type FileAddresses, fileAddresses, isLarge, newFileKey } from '../attempts/tickets.ts';
import { emit } from '../events/projection.ts';
import type { Job, WaitingJob } from '../job.ts';
import {
  baseJobFrame,
  extendedJobBytes,
  extendedJobFrame,
  type JobHead,
  type UnfitJob,
} from '../job-frame.ts';
import { fileSuitsBase } from '../rpc.ts';
import { streamOf } from '../state/fences.ts';
import { type KeptPartial, movedFrom } from '../state/partial-answers.ts';
import { type Core, storeOf } from '../state/state.ts';
import { awaitsTurn, occupySlot, profileOf, type Worker } from '../state/worker.ts';
import { due } from '../store/ports.ts';
import { goesOnExactly } from './equals.ts';
import { SCORERS } from './scorers.ts';

/** The reason for rejecting a frame that is too long, for which a worker would close its socket. */
const TOO_LARGE: UnfitJob = {
  message: 'the request is larger than a worker takes in one frame',
  code: 'too_large',
};

/** Gives one job to one worker: `pending` → `leased`. A stored job's lease and its frame are in one commit. */
export function send(core: Core, worker: Worker, job: Job): void {
  if (job.mode === 'waiting' && job.older) stopOlder(core, job.id, job.older, worker);
  // These values are read before the lease changes a waiting job.
  const isFirst = job.fence_token === 0 && !(job.mode === 'waiting' && job.is_repeat);
  const [attempt, trace] = [attemptNumber(job), traceOf(job, core.now())];
  const kept = keptFor(core, worker, job);
  if (kept !== null) emit(core, job, 'moved', movedFrom(kept));
  const { leased, files } = lease(core, worker, job);
  emit(core, leased, 'dispatched', detailOf(worker, leased), { isFirst });
  const bytes = payloadBytes(worker, leased);
  const { payload, suitsBase } = bytes ? { payload: '', suitsBase: true } : payloadFor(core, leased);
  const head: JobHead = {
    type: 'job',
    job_id: leased.id,
    mode: leased.mode === 'stored' ? 'persisted' : 'transient',
    config_id: worker.session.config_id,
    fence_token: leased.fence_token,
    job_type: leased.job_type,
    attempt,
    lease_seconds: leaseSecondsFor(core, worker),
    deadline_ms: leased.deadline_at === null ? undefined : Math.max(0, leased.deadline_at - core.now()),
    stream_id: isStreamed(worker, leased) ? streamOf(leased) : undefined,
    account: accountOf(leased) ?? undefined,
    priority: leased.priority === 0 ? undefined : leased.priority,
    partial: kept?.partial,
    trace,
    payload_url: files && (payload === null || isLarge(payload)) ? files.payload : undefined,
    result_upload_url: leased.mode === 'stored' ? files?.result : undefined,
  };
  const written = bytes ? byteFrame(worker, head, bytes) : textFrame(worker, head, payload ?? '', suitsBase);
  if (!('text' in written)) return failAttempt(core, leased, { ...written, retryable: false }, 'queue');
  worker.connection.sendJob(written.text);
  if (leased.mode === 'waiting' && isStreamed(worker, leased)) tellStream(leased);
}

/** Returns what is to be known of a dispatch beside the worker, or null. */
function detailOf(worker: Worker, { model, extras: { alias } }: Job): string | null {
  const named = alias && `the alias ${alias.name} means ${model}${alias.fell ? `, after ${alias.fell}` : ''}`;
  const turn = awaitsTurn(worker) && 'its engine sleeps, and waits for its turn';
  return [named, turn].filter(Boolean).join('; ') || null;
}

/** Returns the beginning of a stored job's answer that the worker goes on from; null: it makes the whole answer. */
function keptFor(core: Core, worker: Worker, job: Job): KeptPartial | null {
  if (job.mode === 'waiting' || !worker.session.extended) return null;
  const kept = core.stored.kept(job);
  if (kept === null) return null;
  const { worker_id, partial } = kept;
  const made_by = { worker_id, model_identity: partial.model_identity };
  return goesOnExactly(core, worker, job, made_by) ? kept : null;
}

/** A frame for one worker, or the reason why it cannot be given the job. */
type Written = { text: string | Uint8Array<ArrayBuffer> } | UnfitJob;

function textFrame(worker: Worker, head: JobHead, payload: string, suitsBase: boolean): Written {
  const { takesAnyJob, frameBytes } = profileOf(worker);
  if (takesAnyJob) return { text: extendedJobFrame(head, payload) };
  return baseJobFrame(head, payload, suitsBase, frameBytes);
}

function byteFrame(worker: Worker, head: JobHead, payload: Uint8Array): Written {
  const text = extendedJobBytes(head, payload);
  return text.byteLength <= profileOf(worker).frameBytes ? { text } : TOO_LARGE;
}

function lease(core: Core, worker: Worker, job: Job): { leased: Job; files: FileAddresses | null } {
  const now = core.now();
  const { worker_id } = worker.session;
  const { pingsAreHeard, resolvesAddresses } = profileOf(worker);
  const store = storeOf(core, job);
  // A waiting job's payload goes in the frame, however long, since it would come later if the worker had to fetch it.
  const hasFiles = job.mode === 'stored' || !resolvesAddresses;
  const file_key = hasFiles ? newFileKey(core, store.fileKey(job)) : null;
  const fence_token = core.fences.next();
  const lease_expires_at = now + leaseSecondsFor(core, worker) * 1000;
  if (job.mode === 'stored' && pingsAreHeard) due(core, now + unheardLimitMs(core));
  const leased = store.lease(job, { fence_token, worker_id, leased_at: now, lease_expires_at, file_key });
  occupySlot(worker, leased, now);
  SCORERS.given(worker, leased);
  const files =
    file_key === null ? null : fileAddresses(core, worker, { job_id: leased.id, fence_token, key: file_key });
  return { leased, files };
}

/**
 * Returns the payload as bytes if it is sent as such; else null. Bytes lie outside the heap, which many large strings
 * would fill.
 */
function payloadBytes(worker: Worker, job: Job): Uint8Array | null {
  if (job.mode !== 'waiting' || !worker.session.extended) return null;
  const isSentAsBytes = unpack(job.payload) !== null || job.payload.byteLength > bounds.INLINE_BYTES;
  return isSentAsBytes ? job.payload : null;
}

/**
 * Returns the payload, if it goes in the frame or must be checked; null if it lies in a file, which the worker fetches.
 */
function payloadFor(core: Core, job: Job): { payload: string | null; suitsBase: boolean } {
  if (job.mode === 'waiting') {
    const text = payloadText(job.payload);
    return { payload: text ?? '', suitsBase: text !== null };
  }
  if (job.payload_file !== null) return { payload: null, suitsBase: fileSuitsBase(job.payload_file) };
  const payload = core.stored.takePayload(job.id);
  const { alias } = job.extras;
  if (payload === null || alias === undefined || job.model === null) return { payload, suitsBase: true };
  return { payload: textWithTarget(job.job_type, payload, alias.name, job.model), suitsBase: true };
}

/** Says whether a relay carries the answer. */
function isStreamed(worker: Worker, job: Job): boolean {
  return worker.session.extended && (job.mode === 'waiting' || job.stream === 1);
}

/**
 * Reports the stream to the gateway, which opens it itself, and drops the payload, which a repeated request brings
 * along.
 */
function tellStream(job: WaitingJob): void {
  const worker_id = job.worker_id ?? '';
  job.reply?.({
    kind: 'stream',
    stream_id: streamOf(job),
    fence_token: job.fence_token,
    worker_id,
  });
  job.reply = null;
  job.payload = new Uint8Array();
}

/**
 * Stops the older attempt if another worker has it; the same worker replaces the older attempt by the newer one itself.
 */
function stopOlder(core: Core, jobId: string, older: NonNullable<WaitingJob['older']>, newer: Worker): void {
  const worker = core.workers.byId(older.worker_id);
  if (worker === null || worker === newer || worker.running.get(jobId) !== older.fence_token) return;
  revoke(core, older.worker_id, jobId, 'superseded');
  core.workers.freeSlot(older.worker_id, jobId, older.fence_token);
}

/**
 * Returns what the job's frame says of its trace: the context of its submission, and the facts from which the spans of
 * gateway and queue are made.
 * @param job as it is before its dispatch
 * @param now epoch ms
 */
function traceOf(job: Job, now: number): JobTrace {
  const earlier = job.mode === 'waiting' ? job.earlier : null;
  const previous_fence = earlier ? earlier.fence_token : job.fence_token;
  return {
    ...job.extras.trace,
    queued_ms: Math.max(0, now - job.created_at) + Math.max(0, earlier?.elapsed_ms ?? 0),
    attempts_left: Math.max(0, mostAttempts(job) - attemptNumber(job)),
    ...(previous_fence > 0 && { previous_fence }),
  };
}

/** Returns the number of the attempt that a dispatch would begin, from 1. */
function attemptNumber(job: Job): number {
  return 1 + (job.mode === 'stored' ? job.attempts : (job.earlier?.attempts ?? 0));
}

/** Returns how many attempts the job may have; the gateway repeats the requests of waiting callers. */
function mostAttempts(job: Job): number {
  return job.mode === 'stored' ? job.max_attempts : bounds.CALL_ATTEMPTS;
}
