import type { Core } from '../state/state.ts';

/** Notes in the job's ledger why the answer to a waiting caller broke off where no other worker could go on with it. */
export function stayed(core: Core, jobId: string, why: string): void {
  const last = core.requests.steps(jobId)?.at(-1);
  if (!last) return;
  const { attempt, fence_token, worker_id } = last;
  core.requests.pushStep(
    { id: jobId, tenant: core.requests.tenantOf(jobId) },
    { at: core.now(), step: 'not_moved', attempt, fence_token, worker_id, detail: why },
  );
}
