import { isSettled } from '../../protocol/index.ts';
import { type FollowedJob, maySee, type ToldJob, type Viewer } from '../rpc.ts';
import { liveAnswerOf } from '../state/fences.ts';
import type { Core } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';
import { readOutputCursor } from '../store/output-cursor.ts';

type Answer = (view: ToldJob | null) => void;

/** A stored job as it is. @param viewer to whom another tenant's job does not exist */
export function get(core: Core, jobId: string, viewer: Viewer): ToldJob | null {
  const job = core.stored.find(jobId);
  return job === null || !maySee(viewer, job.tenant) ? null : viewOf(core.sql, job);
}

/** Answers as soon as the job is settled, or after `waitMs` with how it stands then. */
export function wait(core: Core, jobId: string, waitMs: number, viewer: Viewer, answer: Answer): void {
  const view = get(core, jobId, viewer);
  if (view === null || isSettled(view.state) || waitMs <= 0) answer(view);
  else core.stored.waiters.add(jobId, { until: core.now() + waitMs, answer });
}

/**
 * Answers as soon as the job is settled or has an attempt newer than `fence`, or after `waitMs` with how it stands then:
 * also where its output can be read while it is made, and how much of that was taken.
 * @param fence of the newest attempt that is known; 0: none
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
