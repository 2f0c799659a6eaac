/** A request comes at most this long after its cancellation, ms. */
const REMEMBER_MS = 60_000;
/** What is remembered of them; the oldest are forgotten first. */
const MOST = 10_000;

/**
 * Requests whose callers hung up: a cancellation may overtake its request on the way to the queue. The gateway cancels
 * an id only when its caller is gone, and never asks again under it.
 */
export class GoneCallers {
  /** Epoch ms of the cancellation, oldest first. */
  readonly #at = new Map<string, number>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  add(jobId: string): void {
    this.#at.delete(jobId);
    this.#at.set(jobId, this.#now());
    for (const [id, at] of this.#at) {
      if (this.#at.size <= MOST && this.#now() - at <= REMEMBER_MS) break;
      this.#at.delete(id);
    }
  }

  has(jobId: string): boolean {
    const at = this.#at.get(jobId);
    return at !== undefined && this.#now() - at <= REMEMBER_MS;
  }
}
