import type { Storage } from '../store/ports.ts';
import { dropUploads, uploadedJobs } from '../store/uploads-table.ts';

/** Jobs beside which a result was put that is not announced yet. Every settlement asks for them, and nearly none finds one. */
export class Uploads {
  readonly #storage: Storage;
  #jobs: Set<string> | null = null;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** A result is about to be put there. */
  put(jobId: string): void {
    this.#known().add(jobId);
  }

  /** Whatever was put there and not announced is wanted no more. */
  drop(jobId: string): void {
    if (this.#known().delete(jobId)) dropUploads(this.#storage, jobId);
  }

  #known(): Set<string> {
    this.#jobs ??= new Set(uploadedJobs(this.#storage.sql));
    return this.#jobs;
  }
}
