import { isSettled, type JobView } from '../../protocol/index.ts';
import type { JobEvent, OtherEvent } from '../events/event.ts';
import { type Projection, sooner } from '../events/projection.ts';
import { type FollowedJob, maySee, type ToldJob, type Viewer } from '../rpc.ts';
import { liveAnswerOf } from '../state/fences.ts';
import type { Core } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';
import { readOutputCursor } from '../store/jobs-table.ts';
import { UsageBook } from './usage-book.ts';

interface Waiter {
  /** The time at which the call is answered whatever the job's state is, epoch ms. */
  until: number;
  answer(view: JobView | null): void;
}

/** Calls that wait for something to happen to a job. */
export class WaitingCalls {
  readonly #byJob = new Map<string, Waiter[]>();
  /** Epoch ms before which no waiter's time is over: never too late, but too early if a waiter was answered since. */
  #soonest = Number.POSITIVE_INFINITY;

  add(jobId: string, waiter: Waiter): void {
    const waiters = this.#byJob.get(jobId);
    if (waiters) waiters.push(waiter);
    else this.#byJob.set(jobId, [waiter]);
    this.#soonest = Math.min(this.#soonest, waiter.until);
  }

  /** Answers all waiters of this job; calls `viewOf` only if there is one. */
  tell(jobId: string, viewOf: (jobId: string) => JobView | null): void {
    const waiters = this.#byJob.get(jobId);
    if (!waiters) return;
    this.#byJob.delete(jobId);
    const told = viewOf(jobId);
    for (const waiter of waiters) waiter.answer(told);
  }

  /** Answers waiters whose time is over with the job as it stands. @param now epoch ms */
  expire(now: number, viewOf: (jobId: string) => JobView | null): void {
    if (now < this.#soonest) return;
    this.#soonest = Number.POSITIVE_INFINITY;
    for (const [jobId, waiters] of this.#byJob) {
      const left = waiters.filter(({ until }) => until > now);
      for (const { until } of left) this.#soonest = Math.min(this.#soonest, until);
      if (left.length === waiters.length) continue;
      if (left.length === 0) this.#byJob.delete(jobId);
      else this.#byJob.set(jobId, left);
      const view = viewOf(jobId);
      for (const waiter of waiters) if (waiter.until <= now) waiter.answer(view);
    }
  }

  /** Epoch ms at which `expire` may have something to do; null if there is no waiter. */
  get soonest(): number | null {
    return this.#byJob.size === 0 ? null : this.#soonest;
  }
}

/** Answers the calls of those who wait for a stored job, or follow it. */
export class Waiters implements Projection {
  /** Calls that are answered when a job settles. */
  readonly settled = new WaitingCalls();
  /** Calls that are answered when a job settles or is given to a worker. */
  readonly followers = new WaitingCalls();
  /** Calls that are answered when the worker of a cancelled job has reported what it used. */
  readonly used = new WaitingCalls();
  readonly #core: Core;
  readonly #viewOf = (jobId: string): JobView | null => get(this.#core, jobId, null);

  constructor(core: Core) {
    this.#core = core;
  }

  after({ job, step, ending }: JobEvent): void {
    if (job.mode === 'waiting') return;
    if (ending !== undefined) this.settled.tell(job.id, this.#viewOf);
    if (ending !== undefined || step === 'dispatched') this.followers.tell(job.id, this.#viewOf);
  }

  onOther(event: OtherEvent): void {
    if (event.kind !== 'settled_aside' || event.job?.mode !== 'stored') return;
    const { job, frame } = event;
    if (frame.fence_token === job.fence_token) this.used.tell(job.id, this.#viewOf);
  }

  get dueAt(): number | null {
    return sooner(this.used.soonest, sooner(this.settled.soonest, this.followers.soonest));
  }

  due(): void {
    for (const calls of [this.settled, this.followers, this.used])
      calls.expire(this.#core.now(), this.#viewOf);
  }
}

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
 * Answers with a job as soon as all that was counted of it is known, or after `waitMs` as it is then: the worker of one
 * that was cancelled, or whose deadline passed, while it ran reports what it used once it has stopped, and the error of
 * the job has that from then on.
 */
export function used(core: Core, jobId: string, waitMs: number, viewer: Viewer, answer: Answer): void {
  const view = get(core, jobId, viewer);
  const worker = view?.worker_id == null ? null : core.workers.byId(view.worker_id);
  const isAwaited =
    view !== null &&
    worker?.session.extended === true &&
    core.projections.get(UsageBook).isReportAwaited(view.fence_token);
  if (!isAwaited || waitMs <= 0) answer(view);
  else core.projections.get(Waiters).used.add(jobId, { until: core.now() + waitMs, answer });
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
