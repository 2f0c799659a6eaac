import { Newest } from './newest.ts';

/** A request comes at most this long after its cancellation, ms. */
const REMEMBER_MS = 60_000;
/** How many are remembered. */
const MOST = 10_000;

/**
 * Requests whose callers hung up: a cancellation may overtake its request on the way to the queue. The gateway cancels
 * an id only when its caller is gone, and never asks again under it.
 */
export class GoneCallers {
  /** Epoch ms of the cancellation. */
  readonly #at = new Newest<string, number>(MOST);
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  add(jobId: string): void {
    this.#at.set(jobId, this.#now());
  }

  has(jobId: string): boolean {
    const at = this.#at.get(jobId);
    return at !== undefined && this.#now() - at <= REMEMBER_MS;
  }
}
