import type { LedgerView } from '../../src/protocol/index.ts';
import { isSettled, type JobView } from '../../src/protocol/index.ts';

const CHARGES = new Set(['attempt_failed', 'lease_expired']);

/**
 * What a ledger tells that is not so, or null.
 * @param fences of every dispatch of the job, in order
 */
export function ledgerProblem(job: JobView, ledger: LedgerView, fences: readonly number[]): string | null {
  const { steps } = ledger;
  const fencesOf = (is: (step: string) => boolean) =>
    steps.filter(({ step }) => is(step)).map(({ fence_token }) => fence_token);
  if (steps[0]?.step !== 'submitted') return `it begins with ${steps[0]?.step}`;
  if (steps.some(({ at }, index) => index > 0 && at < steps[index - 1]!.at))
    return 'its steps are out of order';
  const dispatched = fencesOf((step) => step === 'dispatched');
  if (String(dispatched) !== String(fences))
    return `it tells of dispatches ${dispatched}; there were ${fences}`;
  for (const fence of dispatched) {
    const ofAttempt = steps.filter(({ fence_token }) => fence_token === fence).map(({ step }) => step);
    const order = ['dispatched', 'started', 'first_token'].map((step) => ofAttempt.indexOf(step));
    if (order.some((at, index) => at >= 0 && order.slice(0, index).some((before) => before > at)))
      return `attempt ${fence} has its steps as ${ofAttempt}`;
  }
  const charged = new Set(fencesOf((step) => CHARGES.has(step)));
  const inRecord = new Set(job.attempt_errors.map((error) => error.fence_token));
  // The failure that ends a job is told by its end.
  if (job.state === 'failed' && inRecord.has(job.fence_token)) charged.add(job.fence_token);
  if (charged.size !== inRecord.size || [...charged].some((fence) => !inRecord.has(fence))) {
    return `it tells of charges for ${[...charged]}; the job's record has ${[...inRecord]}`;
  }
  const ends = steps.filter(({ step }) => step === 'settled' || step === 'cancelled' || step === 'expired');
  if (ends.length !== (isSettled(job.state) ? 1 : 0)) return `it has ${ends.length} ends`;
  return null;
}
