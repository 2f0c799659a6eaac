import type { WaitingJob } from './job.ts';
import type { Worker } from './worker.ts';

/**
 * What commands freed or made ready since the last dispatch pass. No command dispatches by itself: it notes here what
 * it changed, and one pass at the end of the command looks at that and at nothing else (dispatch/dispatch.ts).
 */
export class ReadySet {
  #workers = new Set<Worker>();
  #pools = new Set<string>();
  #jobs = new Set<WaitingJob>();
  /** Pools whose batch work was held back though a slot was free: an event at any worker may let it go on. */
  readonly heldBack = new Set<string>();
  /** Epoch ms at which a job may wake an engine that waits for an awake worker (dispatch/waking.ts); null: none waits so. */
  wakesAt: number | null = null;
  /**
   * Pools with jobs that one worker left to others (dispatch/other-models.ts); the queue looks at them again at
   * `looksAt`, epoch ms.
   */
  readonly leftToOthers = new Set<string>();
  looksAt: number | null = null;
  /** Requests to be tried again that found no slot (dispatch/retries.ts); looked at again at `retriesAt`, epoch ms. */
  readonly retries = new Set<WaitingJob>();
  retriesAt: number | null = null;

  /** The worker may take more than before: a slot is free again, or it registered, resumed or eased. */
  worker(worker: Worker): void {
    this.#workers.add(worker);
  }

  /** A stored job of this pool is ready, or may be given out that was held back. */
  pool(configId: string): void {
    this.#pools.add(configId);
    this.heldBack.delete(configId);
  }

  /** A caller waits for a slot. */
  job(job: WaitingJob): void {
    this.#jobs.add(job);
  }

  /** All of it, once; null: nothing has changed. */
  take(): { workers: Set<Worker>; pools: Set<string>; jobs: Set<WaitingJob> } | null {
    if (this.#workers.size + this.#pools.size + this.#jobs.size === 0) return null;
    const taken = { workers: this.#workers, pools: this.#pools, jobs: this.#jobs };
    this.#workers = new Set();
    this.#pools = new Set();
    this.#jobs = new Set();
    return taken;
  }
}
