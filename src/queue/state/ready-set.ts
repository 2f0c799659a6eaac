import type { WaitingJob } from '../job.ts';
import type { Worker } from './worker.ts';

/**
 * Collects the workers, pools and jobs that commands freed or made ready since the last dispatch pass. No command
 * dispatches by itself: it notes here what it changed, and one pass at the end of the command looks at that and at
 * nothing else (dispatch/dispatch.ts).
 */
export class ReadySet {
  readonly #workers = new Noted<Worker>();
  readonly #pools = new Noted<string>();
  readonly #jobs = new Noted<WaitingJob>();
  /** Pools whose batch work was held back though a slot was free: an event at any worker may let it go on. */
  readonly heldBack = new Set<string>();
  /**
   * The time at which a job that waits for an awake worker may wake an engine, epoch ms (dispatch/waking.ts); null if
   * no job waits for that.
   */
  wakesAt: number | null = null;
  /** The number of calls of `pool`, which tells whether stored jobs have become ready. */
  readied = 0;
  /** Pools with jobs that one worker left to others (dispatch/fair-order.ts). */
  readonly leftToOthers = new Set<string>();
  /** The time at which the queue looks at `leftToOthers` again, epoch ms; null if no pool is in it. */
  looksAt: number | null = null;
  /** Requests to be tried again that found no slot (dispatch/retries.ts). */
  readonly retries = new Set<WaitingJob>();
  /** The time at which the queue looks at `retries` again, epoch ms; null if no request is in it. */
  retriesAt: number | null = null;

  /** Notes that a worker may take more than before: it has a free slot again, or it registered, resumed or eased. */
  worker(worker: Worker): void {
    this.#workers.add(worker);
  }

  /** Notes that a stored job of this pool is ready, or that one that was held back may be given out. */
  pool(configId: string): void {
    this.readied += 1;
    this.#pools.add(configId);
    this.heldBack.delete(configId);
  }

  /** Notes that a waiting job needs a slot. */
  job(job: WaitingJob): void {
    this.#jobs.add(job);
  }

  /** Takes all that was noted; null if nothing has changed. */
  take(): { workers: Iterable<Worker>; pools: Iterable<string>; jobs: Iterable<WaitingJob> } | null {
    if (this.#workers.size + this.#pools.size + this.#jobs.size === 0) return null;
    return { workers: this.#workers.take(), pools: this.#pools.take(), jobs: this.#jobs.take() };
  }
}

/** Collects what is noted until it is taken. */
class Noted<T> {
  #noted = new Set<T>();

  get size(): number {
    return this.#noted.size;
  }

  add(one: T): void {
    this.#noted.add(one);
  }

  /** Takes all; what is noted from now on is for the next time. */
  take(): Iterable<T> {
    if (this.#noted.size === 0) return [];
    const taken = this.#noted;
    this.#noted = new Set();
    return taken;
  }
}
