import { isSettled } from '../../protocol/index.ts';
import { maySee, type ToldJob, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';

type Answer = (view: ToldJob | null) => void;

/** A stored job as it is. @param viewer to whom another tenant's job does not exist */
export function get(core: Core, jobId: string, viewer: Viewer): ToldJob | null {
  const job = core.stored.find(jobId);
  return job === null || !maySee(viewer, job.tenant) ? null : viewOf(core.sql, job);
}

/** Answers when the job settles, at once when it has, and with what there is after `waitMs`. */
export function wait(core: Core, jobId: string, waitMs: number, viewer: Viewer, answer: Answer): void {
  const view = get(core, jobId, viewer);
  if (view === null || isSettled(view.state) || waitMs <= 0) answer(view);
  else core.stored.waiters.add(jobId, { until: core.now() + waitMs, answer });
}

/**
 * The same, also when the job is given to a worker anew since the attempt `fence`.
 * @param fence of the newest attempt that is known; 0: none
 */
export function follow(
  core: Core,
  jobId: string,
  fence: number,
  waitMs: number,
  viewer: Viewer,
  answer: Answer,
): void {
  const view = get(core, jobId, viewer);
  const isNew =
    view !== null && (isSettled(view.state) || (view.state === 'leased' && view.fence_token > fence));
  if (view === null || isNew || waitMs <= 0) answer(view);
  else core.stored.followers.add(jobId, { until: core.now() + waitMs, answer });
}
