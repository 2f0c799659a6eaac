import type { RevokeReason } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';

/** Tells the worker, if it is connected, that a job is no longer its own, so that it aborts the engine request. */
export function revoke(core: Core, workerId: string | null, jobId: string, reason: RevokeReason): void {
  const worker = workerId === null ? null : core.workers.byId(workerId);
  worker?.connection.send({ type: 'job_revoked', job_id: jobId, reason });
}
