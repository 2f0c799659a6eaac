import type { RunningJob } from '../run/running-job.ts';
import type { HeldJob } from './leases.ts';

/** The attempts that run now: one for each job, at most `capacity` at a time. */
export class Slots {
  readonly capacity: number;
  readonly #byJob = new Map<string, RunningJob>();

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  get running(): number {
    return this.#byJob.size;
  }

  get free(): number {
    return Math.max(0, this.capacity - this.#byJob.size);
  }

  get(jobId: string): RunningJob | undefined {
    return this.#byJob.get(jobId);
  }

  all(): RunningJob[] {
    return [...this.#byJob.values()];
  }

  /**
   * Returns the tokens generated so far, by the fence token of the attempt; attempts without a known number are left
   * out.
   */
  generated(): [fence: number, tokens: number][] {
    return this.all().flatMap(({ job: { fence_token }, usage, counting }) => {
      const tokens = (usage ?? counting())?.completion_tokens ?? 0;
      return tokens > 0 ? [[fence_token, tokens] as const satisfies [number, number]] : [];
    });
  }

  held(): HeldJob[] {
    return this.all().map(({ job: { job_id, fence_token, mode, account } }) => ({
      job_id,
      fence_token,
      persisted: mode === 'persisted',
      ...(account !== undefined && { account }),
    }));
  }

  add(running: RunningJob): void {
    this.#byJob.set(running.job.job_id, running);
  }

  /** Frees the slot, unless a newer attempt at the same job has it. */
  remove(running: RunningJob): void {
    if (this.#byJob.get(running.job.job_id) === running) this.#byJob.delete(running.job.job_id);
  }
}
