import type { JobView } from '../../protocol/index.ts';
import { type FollowedJob, maySee, type OutputCursor, type Viewer } from '../rpc.ts';
import { liveAnswerOf } from '../state/fences.ts';
import type { Core } from '../state/state.ts';
import { moveOutputCursor, readOutputCursor } from '../store/output-cursor.ts';

/** Where the output of a job can be read while it is made, and how much of it was taken. */
export function outputOf(core: Core, job: JobView): Pick<FollowedJob, 'live' | 'cursor'> {
  const live = liveAnswerOf(job);
  return { live, cursor: readOutputCursor(core.sql, job.id) };
}

/**
 * A caller takes some of a job's outputs, so that the next time it gets those after them.
 * @returns false: another took them meanwhile, or there is no such job
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
