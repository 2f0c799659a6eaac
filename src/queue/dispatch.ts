import { fitsUtf8, limits } from '../protocol/index.ts';
import { relayName } from '../relay/calls.ts';
import { payloadFile } from './bucket-files.ts';
import { type Core, due } from './core.ts';
import { streamIdOf } from './fences.ts';
import { type FileAddresses, fileAddresses, isLarge, newFileKey } from './files.ts';
import { freeSlots, hasFeature, servesModel, type Worker } from './fleet.ts';
import { baseJobFrame, basePayload, extendedJobFrame, type JobFrame } from './job-frame.ts';
import { failAttempt } from './retry.ts';
import { closeIfSilent, silenceLimitMs } from './silence.ts';
import {
  findJob,
  type JobRow,
  leaseJob,
  nextReadyJob,
  readFileKey,
  readPayload,
  readShortPayload,
} from './tables.ts';
import type { TransientJob } from './transients.ts';

/**
 * Who runs what next. Every event that frees a slot or makes a job ready ends here, so that between events
 * no slot is free while a job that fits it is ready: whoever is handed a slot need look at nobody else.
 */

const TOO_LARGE = 'the payload is over 1 MiB, more than the worker that serves this model takes in one frame';

/** Gives a worker jobs until its slots or the jobs are used up. */
export function fillWorker(core: Core, worker: Worker): void {
  while (freeSlots(worker) > 0) {
    if (!dispatchNext(core, worker)) return;
  }
}

/** Spreads ready jobs over the workers of a config, least loaded first. */
export function fillConfig(core: Core, configId: string): void {
  /** Those that refused all that is ready, or serve no model that is waited for. */
  const unwilling = new Set<Worker>();
  const fits = (worker: Worker) => worker.session.config_id === configId && !unwilling.has(worker);
  for (;;) {
    const worker = leastLoaded(core, fits);
    if (!worker) return;
    if (dispatchNext(core, worker)) continue;
    if (worker.refused.size === 0 && core.transients.waiting().length === 0) return;
    unwilling.add(worker);
  }
}

/** A slot for a job whose caller waits, if one is free. */
export function dispatchTransient(core: Core, job: TransientJob): boolean {
  const worker = leastLoaded(core, (candidate) => mayRun(candidate, job) && !candidate.refused.has(job.id));
  if (!worker) return false;
  sendTransient(core, worker, job);
  return true;
}

/** Whether this worker may run it at all, now or when a slot frees. */
export function mayRun(worker: Worker, job: TransientJob): boolean {
  return job.call.model === null || servesModel(worker, job.call.model);
}

function leastLoaded(core: Core, fits: (worker: Worker) => boolean): Worker | null {
  let best: Worker | null = null;
  for (const worker of core.fleet.all()) {
    if (freeSlots(worker) === 0 || !fits(worker)) continue;
    if (best === null || load(worker) < load(best)) best = worker;
  }
  // A job given to a worker that is gone would wait for its lease to run out.
  return best !== null && closeIfSilent(core, best) ? leastLoaded(core, fits) : best;
}

function load(worker: Worker): number {
  return worker.running.size / worker.session.capacity;
}

/** The better of the next persisted and the next waiting job: higher priority, then older. */
function dispatchNext(core: Core, worker: Worker): boolean {
  const row = nextReadyJob(core.sql, worker.session.config_id, worker.refused);
  const fits = (job: TransientJob) => mayRun(worker, job) && !worker.refused.has(job.id);
  const waiting = core.transients.waiting().find(fits) ?? null;
  if (row !== null && (waiting === null || goesFirst(row, waiting))) {
    leaseAndSend(core, worker, row);
    return true;
  }
  if (waiting !== null) {
    sendTransient(core, worker, waiting);
    return true;
  }
  return false;
}

function goesFirst(row: JobRow, waiting: TransientJob): boolean {
  if (row.priority !== waiting.call.priority) return row.priority > waiting.call.priority;
  return row.created_at <= waiting.created_at;
}

function leaseAndSend(core: Core, worker: Worker, row: JobRow): void {
  const now = core.now();
  const fenceToken = core.fences.next();
  const leaseSeconds = leaseSecondsFor(core, worker);
  const expiresAt = now + leaseSeconds * 1000;
  const fileKey = newFileKey(core, row.fence_token === 0 ? null : readFileKey(core.sql, row.id));
  leaseJob(core.sql, row.id, {
    fence_token: fenceToken,
    worker_id: worker.session.worker_id,
    leased_at: now,
    lease_expires_at: expiresAt,
    file_key: fileKey,
  });
  due(core, worker.session.extended ? Math.min(expiresAt, now + silenceLimitMs(core)) : expiresAt);
  core.pending.left(row);
  worker.running.set(row.id, fenceToken);
  const files = fileAddresses(core, worker, { job_id: row.id, fence_token: fenceToken, key: fileKey });
  // What is not in the row is large: for a worker of ours it need not be read. What is in the bucket cannot be.
  const short = readShortPayload(core.sql, row.id);
  const payload = short ?? (worker.session.extended ? null : readPayload(core.sql, row.id));
  const frame: JobFrame = {
    job_id: row.id,
    mode: 'persisted',
    config_id: row.config_id,
    fence_token: fenceToken,
    payload: payload ?? '',
    job_type: row.job_type,
    attempt: row.attempts + 1,
    lease_seconds: leaseSeconds,
    deadline_ms: row.deadline_at === null ? null : Math.max(0, row.deadline_at - now),
    stream_id: null,
    payload_url: payload === null ? (files?.payload ?? null) : null,
    result_upload_url: files?.result ?? null,
  };
  const refusal = refuseUnread(core, worker, frame) ?? send(worker, frame, files);
  if (refusal !== null) {
    core.fleet.vacate(worker.session.worker_id, row.id, fenceToken);
    const leased = findJob(core.sql, row.id);
    if (leased) failAttempt(core, leased, { message: refusal, code: 'too_large', retryable: false });
  }
}

function sendTransient(core: Core, worker: Worker, job: TransientJob): void {
  const { call } = job;
  const fenceToken = core.fences.next();
  const relayed = hasFeature(worker, 'answer');
  const streamId = streamIdOf(fenceToken);
  core.transients.dispatched(job, fenceToken, worker.session.worker_id);
  core.callLedgers.record(job, 'dispatched');
  job.file_key = newFileKey(core, job.file_key ?? null);
  const ticket = { job_id: job.id, fence_token: fenceToken, key: job.file_key };
  worker.running.set(job.id, fenceToken);
  const frame: JobFrame = {
    job_id: job.id,
    mode: 'transient',
    config_id: worker.session.config_id,
    fence_token: fenceToken,
    payload: call.payload,
    job_type: call.job_type,
    attempt: 1,
    lease_seconds: leaseSecondsFor(core, worker),
    deadline_ms:
      call.deadline_ms === undefined ? null : Math.max(0, call.deadline_ms - (core.now() - job.created_at)),
    stream_id: relayed ? streamId : null,
    payload_url: null,
    result_upload_url: null,
  };
  // A worker of ours gets it at once: its caller waits.
  const refusal = send(worker, frame, worker.session.extended ? null : fileAddresses(core, worker, ticket));
  if (refusal !== null) {
    core.fleet.vacate(worker.session.worker_id, job.id, fenceToken);
    core.transients.remove(job);
    core.callLedgers.record(job, 'attempt_failed', refusal);
    const failure = { message: refusal, code: 'too_large', retryable: false };
    job.answer?.({ kind: 'error', failure, worker_id: worker.session.worker_id });
    return;
  }
  if (!relayed) return;
  job.answer?.({
    kind: 'stream',
    relay: relayName(core.settings.queue_id, worker.session.worker_id),
    stream_id: streamId,
    fence_token: fenceToken,
    worker_id: worker.session.worker_id,
  });
  job.answer = null;
}

/** Why a base worker cannot be given a job whose payload is in the bucket, seen when it came; null: it can. */
function refuseUnread(core: Core, worker: Worker, frame: JobFrame): string | null {
  if (worker.session.extended || frame.payload !== '') return null;
  if (!payloadFile(core.sql, frame.job_id)?.suits_base) return unsuited(frame);
  return frame.payload_url === null ? TOO_LARGE : null;
}

/**
 * Sends the frame in the worker's own protocol; a text says why it cannot be sent.
 * @param files where a payload that is large may be fetched; null: it must go in the frame
 */
function send(worker: Worker, frame: JobFrame, files: FileAddresses | null): string | null {
  const { connection, session } = worker;
  const refer = (payload: string) =>
    frame.payload_url === null && files && isLarge(payload)
      ? { ...frame, payload_url: files.payload }
      : frame;
  if (session.extended) {
    connection.send(extendedJobFrame(refer(frame.payload)));
    return null;
  }
  const payload = frame.payload_url === null ? basePayload(frame.job_type, frame.payload) : '';
  if (payload === null) return unsuited(frame);
  const text = baseJobFrame(refer(payload), payload);
  if (!fitsUtf8(text, limits.BASE_FRAME_BYTES - 1)) return TOO_LARGE;
  connection.send(text);
  return null;
}

function unsuited(frame: JobFrame): string {
  return `the worker that serves this model cannot run ${frame.job_type} jobs of this kind`;
}

export function leaseSecondsFor(core: Core, worker: Worker): number {
  return worker.session.extended ? core.settings.lease_seconds : limits.BASE_LEASE_SECONDS;
}
