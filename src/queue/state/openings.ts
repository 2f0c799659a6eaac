import type { MemoryJob } from './job.ts';
import type { Worker } from './worker.ts';

/**
 * What commands freed or made ready since the last dispatch pass. No command dispatches by itself: it notes here what
 * it changed, and one pass at the end of the command looks at that and at nothing else (dispatch/dispatch.ts).
 */
export class Openings {
  #workers = new Set<Worker>();
  #configs = new Set<string>();
  #jobs = new Set<MemoryJob>();
  /** Configs whose batch work was held back though a slot was free: what lets it go on may happen to any worker. */
  readonly heldBack = new Set<string>();

  /** The worker may take more than before: a slot is free again, or it registered, resumed or eased. */
  worker(worker: Worker): void {
    this.#workers.add(worker);
  }

  /** A stored job of this config is ready, or may be given out that was held back. */
  config(configId: string): void {
    this.#configs.add(configId);
    this.heldBack.delete(configId);
  }

  /** A caller waits for a slot. */
  job(job: MemoryJob): void {
    this.#jobs.add(job);
  }

  /** All of it, once; null: nothing has changed. */
  take(): { workers: Set<Worker>; configs: Set<string>; jobs: Set<MemoryJob> } | null {
    if (this.#workers.size + this.#configs.size + this.#jobs.size === 0) return null;
    const taken = { workers: this.#workers, configs: this.#configs, jobs: this.#jobs };
    this.#workers = new Set();
    this.#configs = new Set();
    this.#jobs = new Set();
    return taken;
  }
}
