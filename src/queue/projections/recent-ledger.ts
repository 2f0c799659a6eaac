import type { LedgerView } from '../../protocol/index.ts';
import type { JobEvent, JobStep } from '../events/event.ts';
import { iso, maySee, type Viewer } from '../rpc.ts';
import type { WaitingJob } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { ledgerOf } from './ledger.ts';

/** The most characters kept of a worker's words. */
const MOST_DETAIL = 4096;

/**
 * Keeps the ledger of the newest waiting jobs, to show where the time of a request went. It is in memory like those
 * jobs themselves, and costs no commit. All requests of the gateway under one id share one ledger.
 */
export function toRecent(core: Core, { job, step, detail, at, timing, firstTokenAt }: JobEvent): void {
  if (job.mode !== 'waiting') return;
  const steps = core.requests.steps(job.id);
  // The gateway asks again: it is the same request.
  if (step === 'submitted' && steps !== null) return;
  // The gateway asks again, since the worker that the answer was moved to failed: the move is in the ledger already.
  if (step === 'moved' && steps?.some((before) => before.step === step && before.detail === detail)) return;
  // The `attempt_failed` before says so already, and the gateway may ask again.
  if (step === 'settled' && steps?.at(-1)?.step === 'attempt_failed') return;
  const toldAt = (ms: number) => Math.min(at, Math.round((job.leased_at ?? at) + ms));
  if (timing?.started_ms !== undefined) push(core, job, 'started', null, toldAt(timing.started_ms));
  if (timing?.first_token_ms !== undefined)
    push(core, job, 'first_token', null, toldAt(timing.first_token_ms));
  if (firstTokenAt != null) pushFirstToken(core, job, firstTokenAt);
  push(core, job, step, detail, at);
}

/** Returns a job's ledger; null if it is neither stored nor among the newest waiting jobs, or not for this viewer. */
export function ledger(core: Core, jobId: string, viewer: Viewer): LedgerView | null {
  return ledgerOf(core, jobId, viewer) ?? recentLedgerOf(core, jobId, viewer);
}

function recentLedgerOf(core: Core, jobId: string, viewer: Viewer): LedgerView | null {
  const steps = core.requests.steps(jobId);
  if (steps === null || !maySee(viewer, core.requests.tenantOf(jobId))) return null;
  // Workers report some steps afterwards.
  const inOrder = steps.toSorted((one, other) => one.at - other.at);
  return { job_id: jobId, steps: inOrder.map((step) => ({ ...step, at: iso(step.at) })) };
}

/** Adds the first token of the newest attempt, unless its worker has reported it. */
function pushFirstToken(core: Core, job: WaitingJob, at: number): void {
  const steps = core.requests.steps(job.id) ?? [];
  const given = steps.findLastIndex(({ step }) => step === 'dispatched');
  if (given === -1 || steps.slice(given).some(({ step }) => step === 'first_token')) return;
  const { attempt, fence_token, worker_id, at: givenAt } = steps[given]!;
  const step = { step: 'first_token', attempt, fence_token, worker_id, detail: null };
  core.requests.pushStep(job, { ...step, at: Math.max(givenAt, at) });
}

function push(core: Core, job: WaitingJob, step: JobStep, detail: string | null, at: number): void {
  const before = core.requests.steps(job.id)?.at(-1)?.attempt ?? 0;
  core.requests.pushStep(job, {
    at,
    step,
    attempt: step === 'dispatched' ? before + 1 : before,
    fence_token: job.fence_token,
    worker_id: job.worker_id,
    detail: detail?.slice(0, MOST_DETAIL) ?? null,
  });
}
