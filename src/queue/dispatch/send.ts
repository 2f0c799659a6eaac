import { fitsUtf8, limits } from '../../protocol/index.ts';
import { relayName } from '../../relay/calls.ts';
import { leaseSecondsFor } from '../attempts/lease.ts';
import { failAttempt } from '../attempts/retry.ts';
import { revoke } from '../attempts/revoke.ts';
import { silenceLimitMs } from '../attempts/silence.ts';
import { type FileAddresses, fileAddresses, isLarge, newFileKey } from '../attempts/tickets.ts';
import { baseJobFrame, basePayload, extendedJobFrame, type JobFrame } from '../peers/job-frame.ts';
import { unpackText } from '../rpc.ts';
import { streamIdOf } from '../state/fences.ts';
import { hasFeature, type Worker } from '../state/live-fleet.ts';
import type { TransientJob } from '../state/memory-jobs.ts';
import { type Core, due } from '../state/state.ts';
import { payloadFile } from '../store/blob-table.ts';
import {
  findJob,
  type JobRow,
  leaseJob,
  readFileKey,
  readPayload,
  readShortPayload,
} from '../store/jobs-table.ts';

/** Gives one job to one worker. Whoever calls has chosen both. */

const TOO_LARGE = 'the payload is over 1 MiB, more than the worker that serves this model takes in one frame';

/** `pending` → `leased`, in one commit with the frame that says so. */
export function sendStored(core: Core, worker: Worker, row: JobRow): void {
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
    core.fleet.freeSlot(worker.session.worker_id, row.id, fenceToken);
    const leased = findJob(core.sql, row.id);
    if (leased) failAttempt(core, leased, { message: refusal, code: 'too_large', retryable: false });
  }
}

/** The same for a job whose caller waits: nothing is stored. */
export function sendTransient(core: Core, worker: Worker, job: TransientJob): void {
  const { call } = job;
  const fenceToken = core.fences.next();
  const relayed = hasFeature(worker, 'answer');
  const streamId = streamIdOf(fenceToken);
  if (job.older) stopOlder(core, job.id, job.older, worker);
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
    payload: unpackText(call.payload),
    job_type: call.job_type,
    attempt: 1,
    lease_seconds: leaseSecondsFor(core, worker),
    deadline_ms:
      call.deadline_ms === undefined ? null : Math.max(0, call.deadline_ms - (core.now() - job.created_at)),
    stream_id: relayed ? streamId : null,
    payload_url: null,
    result_upload_url: null,
  };
  // An extended peer gets it at once: its caller waits.
  const refusal = send(worker, frame, worker.session.extended ? null : fileAddresses(core, worker, ticket));
  if (refusal !== null) {
    core.fleet.freeSlot(worker.session.worker_id, job.id, fenceToken);
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
  // Whoever asks again brings it along.
  job.call = { ...call, payload: new Uint8Array() };
}

/** The older attempt is aborted if it was given to another worker; the same one puts the newer in its place. */
function stopOlder(
  core: Core,
  jobId: string,
  older: NonNullable<TransientJob['older']>,
  newer: Worker,
): void {
  const worker = core.fleet.byId(older.worker_id);
  if (worker === null || worker === newer || worker.running.get(jobId) !== older.fence_token) return;
  revoke(core, older.worker_id, jobId, 'superseded');
  core.fleet.freeSlot(older.worker_id, jobId, older.fence_token);
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
