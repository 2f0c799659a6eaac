import type {
  AckOutcome,
  Failure,
  JobError,
  JobRef,
  JobResult,
  JobResultRef,
  Timing,
} from '../../protocol/index.ts';
import { isRetryableStatus, parseEngineError } from '../../protocol/index.ts';
import { type Claim, claimOf } from '../attempts/claim.ts';
import { endJob } from '../attempts/end.ts';
import { failAttempt } from '../attempts/retry.ts';
import { adoptUpload } from '../attempts/tickets.ts';
import { attemptErrors } from '../attempts/view.ts';
import { record } from '../events/ledger.ts';
import { hasFeature, type Worker } from '../state/live-fleet.ts';
import type { TransientJob } from '../state/memory-jobs.ts';
import type { Core } from '../state/state.ts';
import { findJob, type JobRow } from '../store/jobs-table.ts';

/** A job succeeded: checked against the fence, stored, acknowledged, its slot filled again; one commit. */
export function settleResult(core: Core, worker: Worker, frame: JobResult): void {
  const transient = core.transients.get(frame.job_id);
  if (transient) {
    settleTransient(core, worker, transient, frame, () =>
      transient.answer?.({ kind: 'result', result: frame.result, worker_id: worker.session.worker_id }),
    );
    return;
  }
  settlePersisted(core, worker, frame, 'succeeded', (row) => {
    const { attempts } = row;
    const settlement = { state: 'succeeded', attempts, attempt_errors: attemptErrors(row) } as const;
    const { worker_id } = worker.session;
    const result = JSON.stringify(frame.result);
    endJob(core, row, { ...settlement, worker_id, result, error: null });
  });
}

/** The same for a result that was put beside the job before. */
export function settleResultRef(core: Core, worker: Worker, frame: JobResultRef): void {
  const { job_id, fence_token } = frame;
  const { worker_id } = worker.session;
  settlePersisted(core, worker, frame, 'succeeded', (row) => {
    if (!adoptUpload(core.sql, job_id, fence_token)) {
      const message = 'the worker announced a result that it had not put there';
      return failAttempt(core, { ...row, worker_id }, { message, code: 'worker_error', retryable: true });
    }
    const { attempts } = row;
    const settlement = { state: 'succeeded', attempts, attempt_errors: attemptErrors(row) } as const;
    endJob(core, row, { ...settlement, worker_id, result: null, error: null });
  });
  // The acknowledgement of the base protocol.
  if (!worker.session.extended) worker.connection.send(JSON.stringify({ type: 'job_result_ref', job_id }));
}

/** An attempt failed: final, or another one later. */
export function settleError(core: Core, worker: Worker, frame: JobError): void {
  const failure = failureOf(worker, frame);
  const transient = core.transients.get(frame.job_id);
  if (transient) {
    settleTransient(core, worker, transient, frame, () =>
      transient.answer?.({ kind: 'error', failure, worker_id: worker.session.worker_id }),
    );
    return;
  }
  settlePersisted(core, worker, frame, 'failed', (row) => {
    if (failure.code === 'deadline' && row.deadline_at !== null) expireJob(core, row, failure);
    else failAttempt(core, { ...row, worker_id: worker.session.worker_id }, failure);
  });
}

/** The worker's clock was faster than the alarm. */
function expireJob(core: Core, row: JobRow, error: Failure): void {
  const { worker_id, attempts } = row;
  const settlement = { state: 'expired', worker_id, attempts, attempt_errors: attemptErrors(row) } as const;
  endJob(core, row, { ...settlement, result: null, error });
}

function settlePersisted(
  core: Core,
  worker: Worker,
  frame: JobResult | JobResultRef | JobError,
  state: 'succeeded' | 'failed',
  settle: (row: JobRow) => void,
): void {
  const { job_id: jobId, fence_token: fenceToken } = frame;
  const row = findJob(core.sql, jobId);
  const outcome = outcomeOf(claimOf(row, worker, frame), row, worker, frame, state);
  if (row !== null && outcome === 'settle') {
    core.fleet.freeSlot(row.worker_id, jobId, fenceToken);
    settle({ ...row, ...timesOf(core, row, frame.timing) });
  } else if (row !== null) {
    const told = { ...row, worker_id: worker.session.worker_id };
    if (outcome === 'accepted') record(core, told, 'acknowledged_again');
    else record(core, told, 'refused_stale', `its token was ${fenceToken}`);
  }
  core.fleet.freeSlot(worker.session.worker_id, jobId, fenceToken);
  forgetDeclined(core, worker);
  acknowledge(worker, jobId, fenceToken, outcome === 'settle' ? 'accepted' : outcome);
}

/** What the verdict on a settlement of a stored job means for it. */
function outcomeOf(
  claim: Claim,
  row: JobRow | null,
  worker: Worker,
  { job_id, fence_token }: JobRef,
  state: 'succeeded' | 'failed',
): 'settle' | AckOutcome {
  switch (claim) {
    case 'held':
      return 'settle';
    case 'lapsed':
      // A failure that comes after the lease ran out was charged then.
      return state === 'succeeded' ? 'settle' : 'accepted';
    case 'settled_by_it':
      return row?.state === state ? 'accepted' : 'stale';
    case 'stale':
      return 'stale';
    case 'unknown':
      // Taken over at a reconnect after the queue itself restarted: nothing is stored of it, its slot is.
      return worker.running.get(job_id) === fence_token ? 'accepted' : 'unknown';
  }
}

function settleTransient(
  core: Core,
  worker: Worker,
  job: TransientJob,
  frame: JobResult | JobError,
  answer: () => void,
): void {
  const fenceToken = frame.fence_token;
  // A base worker keeps no token of jobs in memory and sends 0: that it holds the job counts.
  const isUntold = !worker.session.extended && fenceToken === 0;
  const claim = claimOf(job, worker, { fence_token: isUntold ? job.fence_token : fenceToken });
  if (claim === 'held') {
    core.transients.remove(job);
    core.callLedgers.recordTiming(job, frame.timing);
    if (frame.type === 'job_result') core.callLedgers.record(job, 'settled', 'succeeded');
    else core.callLedgers.record(job, 'attempt_failed', frame.error);
    core.fleet.freeSlot(job.worker_id, job.id, job.fence_token);
    answer();
  }
  // The gateway may have asked again before this attempt's end was told: then only its old slot is freed.
  core.fleet.freeSlot(worker.session.worker_id, job.id, fenceToken);
  forgetDeclined(core, worker);
  acknowledge(worker, job.id, fenceToken, claim === 'held' ? 'accepted' : 'stale');
}

/** It has less to do than when it declined them. */
function forgetDeclined(core: Core, worker: Worker): void {
  if (worker.declined.size === 0) return;
  worker.declined.clear();
  core.openings.worker(worker);
}

function acknowledge(worker: Worker, jobId: string, fenceToken: number, outcome: AckOutcome): void {
  if (!hasFeature(worker, 'ack')) return;
  worker.connection.send(JSON.stringify({ type: 'ack', job_id: jobId, fence_token: fenceToken, outcome }));
}

/** The worker tells durations, from when the job came to it: clocks are never compared across machines. */
function timesOf(
  core: Core,
  row: JobRow,
  timing: Timing = {},
): Pick<JobRow, 'started_at' | 'first_token_at'> {
  const at = (ms: number | undefined) =>
    ms === undefined || row.leased_at === null ? null : Math.min(core.now(), Math.round(row.leased_at + ms));
  return { started_at: at(timing.started_ms), first_token_at: at(timing.first_token_ms) };
}

/** A base worker sends only a text: the engine's status is parsed from it, and the rest follows. */
function failureOf(worker: Worker, frame: JobError): Failure {
  const status = frame.http_status ?? parseEngineError(frame.error)?.status ?? null;
  const retryable =
    frame.retryable ?? (status === null ? !worker.session.extended : isRetryableStatus(status));
  return {
    message: frame.error,
    code: frame.code ?? 'worker_error',
    retryable,
    ...(status === null ? {} : { http_status: status }),
    ...(frame.body === undefined ? {} : { body: frame.body }),
  };
}
