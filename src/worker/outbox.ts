import type { JobError, JobRef, JobResult, JobResultRef } from '../protocol/index.ts';

/** A frame that ends a job. */
export type Settlement = JobResult | JobResultRef | JobError;

/** Settlements until the queue has acknowledged them; with a base queue, until they are sent. */
export class Outbox {
  readonly #byJob = new Map<string, Settlement>();

  get size(): number {
    return this.#byJob.size;
  }

  put(settlement: Settlement): void {
    this.#byJob.set(settlement.job_id, settlement);
  }

  get(jobId: string): Settlement | undefined {
    return this.#byJob.get(jobId);
  }

  /** Forgets the settlement of this very attempt; one of a newer attempt stays. */
  acknowledge(ref: JobRef): boolean {
    const kept = this.#byJob.get(ref.job_id);
    return kept?.fence_token === ref.fence_token && this.#byJob.delete(ref.job_id);
  }

  remove(jobId: string): void {
    this.#byJob.delete(jobId);
  }

  /** In the order they were put. */
  all(): Settlement[] {
    return [...this.#byJob.values()];
  }
}
