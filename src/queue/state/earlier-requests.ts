/** A worker that lost its connection and may be back. */
interface Absent {
  /** Epoch ms */
  until: number;
  /** Whether the queue has heard since it started what the worker goes on with. */
  isKnown: boolean;
}

/**
 * Requests from before a restart of the queue: only their workers know of them, and tell when they register. Until all
 * workers that were there have registered, or their grace is over, the queue does not know how many there are.
 */
export class EarlierRequests {
  /** By id: the worker that runs it. */
  readonly #workers = new Map<string, string>();
  /** By id. */
  readonly #absent = new Map<string, Absent>();

  /** Its worker goes on with it. */
  add(id: string, workerId: string): void {
    this.#workers.set(id, workerId);
  }

  /** @returns whether it was one of them */
  delete(id: string): boolean {
    return this.#workers.delete(id);
  }

  /**
   * At the start: this worker was connected before, and has not told yet what it goes on with.
   * @param until epoch ms
   */
  awaitWorker(workerId: string, until: number): void {
    this.#absent.set(workerId, { until, isKnown: false });
  }

  /** A worker lost its connection. @param until epoch ms until which it may be back */
  lostWorker(workerId: string, until: number): void {
    if (this.#of(workerId).length > 0) this.#absent.set(workerId, { until, isKnown: true });
  }

  /** It has registered. @param running what it goes on with @returns those that it does not */
  heardWorker(workerId: string, running: ReadonlyMap<string, unknown>): string[] {
    this.#absent.delete(workerId);
    return this.#of(workerId).filter((id) => !running.has(id));
  }

  /** Gives every worker that is away at least until then, epoch ms. */
  postpone(until: number): void {
    for (const absent of this.#absent.values()) absent.until = Math.max(absent.until, until);
  }

  /** Forgets workers that are not back in time. @returns what they went on with */
  takeLost(now: number): string[] {
    const gone = [...this.#absent].filter(([, { until }]) => until <= now).map(([workerId]) => workerId);
    for (const workerId of gone) this.#absent.delete(workerId);
    return gone.flatMap((workerId) => this.#of(workerId));
  }

  /** Epoch ms at which `takeLost` has something; null: all workers are back. */
  get nextLost(): number | null {
    const times = [...this.#absent.values()].map(({ until }) => until);
    return times.length > 0 ? Math.min(...times) : null;
  }

  /** Epoch ms at which all of them are known, at the latest; null: they are. */
  get unknownUntil(): number | null {
    const unknown = [...this.#absent.values()].filter(({ isKnown }) => !isKnown);
    return unknown.length > 0 ? Math.max(...unknown.map(({ until }) => until)) : null;
  }

  #of(workerId: string): string[] {
    return [...this.#workers].filter(([, by]) => by === workerId).map(([id]) => id);
  }
}
