import { isSettled } from '../../protocol/index.ts';
import { type FollowedJob, maySee, type ToldJob, type Viewer } from '../rpc.ts';
import { liveAnswerOf } from '../state/fences.ts';
import type { Core } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';
import { readOutputCursor } from '../store/output-cursor.ts';

type Answer = (view: ToldJob | null) => void;

/** Returns a stored job in its present state; null if there is none, or none for this viewer. */
export function get(core: Core, jobId: string, viewer: Viewer): ToldJob | null {
  const job = core.stored.find(jobId);
  return job === null || !maySee(viewer, job.tenant) ? null : viewOf(core.sql, job);
}

/** Answers as soon as the job is settled, or after `waitMs` with its state at that time. */
export function wait(core: Core, jobId: string, waitMs: number, viewer: Viewer, answer: Answer): void {
  const view = get(core, jobId, viewer);
  if (view === null || isSettled(view.state) || waitMs <= 0) answer(view);
  else core.stored.waiters.add(jobId, { until: core.now() + waitMs, answer });
}

/**
 * Answers as soon as the job is settled or has an attempt newer than `fence`, or after `waitMs` with its state at that
 * time. The answer also says where the job's output can be read while it is generated, and how much of it was taken.
 * @param fence the token of the newest attempt that the caller knows; 0: none
 */
export function follow(
  core: Core,
  jobId: string,
  fence: number,
  waitMs: number,
  viewer: Viewer,
  answer: (followed: FollowedJob | null) => void,
): void {
  const told: Answer = (job) =>
    answer(job && { job, live: liveAnswerOf(job), cursor: readOutputCursor(core.sql, job.id) });
  const view = get(core, jobId, viewer);
  const isNew =
    view !== null && (isSettled(view.state) || (view.state === 'leased' && view.fence_token > fence));
  if (view === null || isNew || waitMs <= 0) told(view);
  else core.stored.followers.add(jobId, { until: core.now() + waitMs, answer: told });
}
