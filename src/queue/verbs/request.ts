import { shortName } from '../../protocol/index.ts';
import { revoke } from '../attempts/revoke.ts';
import { bytesOf, type CallAnswer, type TransientCall, UNSERVED, type Unserved } from '../rpc.ts';
import { isNamed, liveConfig } from '../state/live-config.ts';
import { mayRun, type Worker } from '../state/live-fleet.ts';
import type { TransientJob } from '../state/memory-jobs.ts';
import type { Core } from '../state/state.ts';

/** What a caller is told to wait before it tries again when no worker is there, s. */
const RETRY_AFTER_SECONDS = 5;

/** A job whose caller waits: the dispatch pass that follows finds it a slot, or `waitOrRefuse` says what becomes of it. */
export function call(
  core: Core,
  request: TransientCall,
  answer: (answer: CallAnswer | Unserved) => void,
): void {
  const choice = liveConfig(core, request.model) ?? request.known;
  if (choice === undefined) return answer(UNSERVED);
  if (choice.kind === 'ambiguous') return answer(ambiguous(choice.models));
  const configId = choice.kind === 'config' ? choice.config_id : null;
  const now = core.now();
  const older = takeOver(core, request.job_id);
  const deadlineMs = request.deadline_ms ?? Number.POSITIVE_INFINITY;
  const slotWait = Math.max(request.wait_for_slot_ms, request.wait_for_worker_ms);
  const job: TransientJob = {
    id: request.job_id,
    call: {
      ...request,
      model: isNamed(request.model) ? request.model : configId,
      payload: bytesOf(request.payload),
    },
    waits_for: configId ?? '',
    state: 'pending',
    priority: request.priority,
    created_at: now,
    worker_by: now + Math.min(deadlineMs, request.wait_for_worker_ms),
    slot_by: now + Math.min(deadlineMs, slotWait),
    fence_token: 0,
    worker_id: null,
    answer,
    orphaned_at: null,
    is_admitted: false,
    older,
  };
  core.transients.add(job);
  if (!core.callLedgers.has(job.id)) core.callLedgers.record(job, 'submitted');
  core.openings.job(job);
}

/** The attempt that the job under this id has with a worker: the gateway asks again only when it lost its answer. */
function takeOver(core: Core, jobId: string): TransientJob['older'] {
  const before = core.transients.get(jobId);
  if (!before) return null;
  core.transients.remove(before);
  const { worker_id, fence_token } = before;
  return worker_id === null ? before.older : { worker_id, fence_token };
}

/** A job whose attempt was released while its caller was still to be told: it waits again. */
export function requeue(core: Core, job: TransientJob): void {
  const again: TransientJob = {
    ...job,
    state: 'pending',
    fence_token: 0,
    worker_id: null,
    orphaned_at: null,
  };
  core.transients.add(again);
  core.openings.job(again);
}

/** A job that found no slot at once: it waits if there is hope and room, or is refused. */
export function waitOrRefuse(core: Core, job: TransientJob): void {
  const workers = workersFor(core, job.call.model);
  if (refuseIfHopeless(core, job, workers)) return;
  const full = job.is_admitted ? null : fullness(core, job);
  if (full !== null) {
    refuse(core, job, tooMany(full));
    return;
  }
  job.is_admitted = true;
  core.transients.nextRefusal.lower(refusedAt(core, job, workers));
}

/** Refuses waiting jobs whose time is over. */
export function refuseOverdue(core: Core): void {
  const next = nextRefusal(core);
  if (next === null || core.now() < next) return;
  for (const [model, jobs] of core.transients.waitingByModel()) {
    const workers = workersFor(core, model);
    for (const job of jobs) refuseIfHopeless(core, job, workers);
  }
  core.transients.nextRefusal.forget();
}

/** Ends running jobs past their deadline where no relay carries the answer: a base worker knows of no deadlines. */
export function endOverdue(core: Core): void {
  for (const job of [...core.transients.all()]) {
    const { deadline_ms } = job.call;
    if (job.state !== 'leased' || !job.answer || deadline_ms === undefined) continue;
    if (core.now() < job.created_at + deadline_ms) continue;
    const failure = {
      message: 'the deadline of the request passed while a worker ran it',
      code: 'deadline',
      retryable: false,
    };
    core.transients.remove(job);
    core.callLedgers.record(job, 'attempt_failed', `${failure.code}: ${failure.message}`);
    revoke(core, job.worker_id, job.id, 'deadline');
    core.fleet.freeSlot(job.worker_id, job.id, job.fence_token);
    job.answer({ kind: 'error', failure, worker_id: job.worker_id ?? '' });
  }
}

/** Epoch ms at which `refuseOverdue` may have something to do; null: never. */
export function nextRefusal(core: Core): number | null {
  if (core.transients.waiting === 0) return null;
  return core.transients.nextRefusal.get(core.fleet.changes, () => {
    let next = Number.POSITIVE_INFINITY;
    for (const [model, jobs] of core.transients.waitingByModel()) {
      const workers = workersFor(core, model);
      for (const job of jobs) next = Math.min(next, refusedAt(core, job, workers));
    }
    return next;
  });
}

/** Refuses a waiting job whose time is over, or that every worker has declined; true: it is told. */
function refuseIfHopeless(core: Core, job: TransientJob, workers: readonly Worker[]): boolean {
  if (workers.length > 0 && workers.every(({ declined }) => declined.has(job.id))) {
    for (const { declined } of workers) declined.delete(job.id);
    refuse(core, job, tooLate(job));
    return true;
  }
  if (core.now() < refusedAt(core, job, workers)) return false;
  refuse(core, job, workers.length > 0 ? noSlot(job) : noWorker(job));
  return true;
}

/** Epoch ms. A worker that lost its connection has the grace to be back: its callers need not notice. */
function refusedAt(core: Core, job: TransientJob, workers: readonly Worker[]): number {
  if (workers.length > 0) return job.slot_by;
  const backBy = core.fleet.expectedUntil(core.now(), (worker) => mayRun(worker, job.call.model));
  return Math.min(job.slot_by, Math.max(job.worker_by, backBy));
}

function refuse(core: Core, job: TransientJob, answer: Refusal): void {
  core.transients.remove(job);
  core.callLedgers.record(job, 'refused', answer.message);
  job.answer?.(answer);
}

/** Connected workers that may run it, now or when a slot frees. */
function workersFor(core: Core, model: string | null): Worker[] {
  return core.fleet.all().filter((worker) => !worker.session.draining && mayRun(worker, model));
}

type Refusal = Extract<CallAnswer, { kind: 'refused' }>;

function ambiguous(models: string): Refusal {
  return {
    kind: 'refused',
    reason: 'ambiguous_model',
    message: `name a model, there are several: ${models}`,
    retry_after_seconds: 0,
  };
}

function noWorker({ call: { model, known }, waits_for }: TransientJob): Refusal {
  const asked = `the model "${shortName(model ?? '')}"`;
  if (model !== null && waits_for === '') {
    const there = known?.kind === 'unknown' ? known.models : '';
    return {
      kind: 'refused',
      reason: 'unknown_model',
      message: there
        ? `${asked} is not served here; models: ${there}`
        : `${asked} is not served here: no worker is known`,
      retry_after_seconds: 0,
    };
  }
  return {
    kind: 'refused',
    reason: 'no_worker',
    message:
      model === null
        ? 'no worker is known yet: start one, or wait for it with the header X-Queue-Wait: 30'
        : `no worker for ${asked} is connected at the moment: retry, or wait for one with the header X-Queue-Wait: 30`,
    retry_after_seconds: RETRY_AFTER_SECONDS,
  };
}

function noSlot(job: TransientJob): Refusal {
  return {
    kind: 'refused',
    reason: 'no_slot',
    message: `every worker for "${shortName(job.call.model ?? 'this model')}" stayed busy for as long as the request could wait`,
    retry_after_seconds: RETRY_AFTER_SECONDS,
  };
}

/** Callers that wait are bounded for each config and each tenant, their bodies in all and for each tenant; null: there is room. */
function fullness(core: Core, { waits_for, call }: TransientJob): string | null {
  const { max_waiting, max_waiting_per_tenant, max_waiting_bytes, max_waiting_bytes_per_tenant } =
    core.settings;
  if (core.transients.waitingFor(waits_for) > max_waiting) {
    return `the queue is full: ${max_waiting} requests for "${shortName(call.model ?? 'any model')}" wait for a free slot already`;
  }
  const tenant = call.tenant ?? null;
  if (tenant !== null && core.transients.waitingOf(tenant) > max_waiting_per_tenant) {
    return `the queue is full for the token "${tenant}": ${max_waiting_per_tenant} requests of it wait for a free slot already`;
  }
  if (core.transients.waitingBytes > max_waiting_bytes) {
    return `the queue is full: the requests that wait for a free slot may have ${max_waiting_bytes} bytes in all`;
  }
  if (tenant !== null && core.transients.waitingBytesOf(tenant) > max_waiting_bytes_per_tenant) {
    return `the queue is full for the token "${tenant}": its requests that wait for a free slot may have ${max_waiting_bytes_per_tenant} bytes in all`;
  }
  return null;
}

function tooMany(message: string): Refusal {
  return {
    kind: 'refused',
    reason: 'queue_full',
    message,
    retry_after_seconds: RETRY_AFTER_SECONDS,
  };
}

function tooLate(job: TransientJob): Refusal {
  return {
    kind: 'refused',
    reason: 'deadline',
    message: `no worker for "${shortName(job.call.model ?? 'this model')}" can answer within the request's deadline at its present load`,
    retry_after_seconds: RETRY_AFTER_SECONDS,
  };
}
