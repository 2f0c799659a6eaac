import { maySee, type OutputCursor, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { moveOutputCursor } from '../store/output-cursor.ts';

/**
 * Takes some of a job's outputs for a caller, which next time gets those after them.
 * @returns false if another caller took them meanwhile, or there is no such job
 */
export function takeOutput(
  core: Core,
  jobId: string,
  from: OutputCursor,
  to: OutputCursor,
  viewer: Viewer,
): boolean {
  const job = core.stored.find(jobId);
  return job !== null && maySee(viewer, job.tenant) && moveOutputCursor(core.sql, jobId, from, to);
}
