import { isSettled } from '../../protocol/index.ts';
import { Listeners } from '../projections/listeners.ts';
import { Waiters } from '../projections/waiters.ts';
import {
  type FollowedJob,
  maySee,
  type OutputCursor,
  type SettledJobs,
  type ToldJob,
  type Viewer,
} from '../rpc.ts';
import { liveAnswerOf } from '../state/fences.ts';
import type { Core } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';
import { moveOutputCursor, readOutputCursor } from '../store/jobs-table.ts';

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
  else core.projections.get(Waiters).settled.add(jobId, { until: core.now() + waitMs, answer });
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
  else core.projections.get(Waiters).followers.add(jobId, { until: core.now() + waitMs, answer: told });
}

/** The most characters that one answer holds, about; the rest comes with the next. */
const ANSWER_CHARACTERS = 4_000_000;
/** The most results in files that one answer may name: the gateway reads them side by side, all in memory. */
const LONG_RESULTS = 4;

/** Listens for jobs by id. @returns the ids under which there is no job, or none for this viewer */
export function listen(core: Core, listener: string, jobIds: readonly string[], viewer: Viewer): string[] {
  return jobIds.filter((id) => {
    const job = core.stored.find(id);
    if (job === null || !maySee(viewer, job.tenant)) return true;
    core.projections.get(Listeners).listen(listener, id, isSettled(job.state));
    return false;
  });
}

/** Forgets a listener that is gone. */
export function leaveListener(core: Core, listener: string): void {
  core.projections.get(Listeners).leave(listener);
}

/** Answers as soon as jobs that the listener listens for have settled, or with none after `waitMs`. */
export function nextSettled(
  core: Core,
  listener: string,
  waitMs: number,
  answer: (settled: SettledJobs) => void,
): void {
  const listeners = core.projections.get(Listeners);
  const until = core.now() + waitMs;
  const isKnown = listeners.ask(listener, until, (why) =>
    answer({
      listener: why === 'leaving' ? 'leaving' : 'known',
      jobs: why === 'settled' ? takeSettled(core, listener) : [],
    }),
  );
  if (!isKnown) answer({ listener: 'unknown', jobs: [] });
}

function takeSettled(core: Core, listener: string): SettledJobs['jobs'] {
  const jobs: SettledJobs['jobs'] = [];
  for (let characters = 0, long = 0; characters < ANSWER_CHARACTERS && long < LONG_RESULTS; ) {
    const jobId = core.projections.get(Listeners).take(listener);
    if (jobId === null) break;
    const told = settledText(core, jobId);
    // The queue has forgotten the job meanwhile.
    if (told === null) continue;
    jobs.push({ id: jobId, view: told.view });
    characters += told.view.length;
    if (told.isLong) long += 1;
  }
  return jobs;
}

/**
 * Writes a settled job as JSON, with the text of the result in its row.
 * @returns `isLong`: the result is left out; the program reads it at the job's own address
 */
function settledText(core: Core, jobId: string): { view: string; isLong: boolean } | null {
  const job = core.stored.find(jobId);
  if (job === null) return null;
  const { result: _, ...view } = viewOf(core.sql, job, false);
  const head = JSON.stringify(view).slice(0, -1);
  if (job.state !== 'succeeded') return { view: `${head},"result":null}`, isLong: false };
  if (job.result_file !== null)
    return { view: `${head},"result":null,"has_long_result":true}`, isLong: true };
  return { view: `${head},"result":${core.stored.takeResult(jobId) ?? 'null'}}`, isLong: false };
}

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
