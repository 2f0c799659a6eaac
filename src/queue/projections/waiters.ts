import type { JobView } from '../../protocol/index.ts';

interface Waiter {
  /** When the call is answered whatever the job's state is, epoch ms. */
  until: number;
  answer(view: JobView | null): void;
}

/** Calls that are answered when a job settles. */
export class Waiters {
  readonly #byJob = new Map<string, Waiter[]>();
  /** Epoch ms before which no waiter's time is over: never too late, but too early if a waiter was answered since. */
  #soonest = Number.POSITIVE_INFINITY;

  add(jobId: string, waiter: Waiter): void {
    const waiters = this.#byJob.get(jobId);
    if (waiters) waiters.push(waiter);
    else this.#byJob.set(jobId, [waiter]);
    this.#soonest = Math.min(this.#soonest, waiter.until);
  }

  /** Answers all waiters of this job; calls `view` only if there is one. */
  tell(jobId: string, view: () => JobView | null): void {
    const waiters = this.#byJob.get(jobId);
    if (!waiters) return;
    this.#byJob.delete(jobId);
    const told = view();
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
