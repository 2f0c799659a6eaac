/** A worker that lost its connection and may be back. */
interface Absent {
  /** Epoch ms */
  until: number;
  /** Whether the queue has heard since it started what the worker goes on with. */
  isKnown: boolean;
}

/** By then every gateway that repeats its requests after a restart has done so, ms. */
const ASKED_AGAIN_MS = 300_000;

/**
 * Requests from before a restart of the queue. Only their workers know which of them run, and tell when they register:
 * until all workers that were there have registered, or their grace is over, the queue does not know how many there are.
 * The gateway asks again for those that waited for a slot. Which ones were let in is in the tables, so none counts twice.
 */
export class EarlierRequests {
  readonly #now: () => number;
  readonly #startedAt: number;
  /** Requests that were let in, and counted, by token and id: epoch ms. */
  readonly #letIn = new Map<string, ReadonlyMap<string, number>>();
  /** By id: the worker that runs it. */
  readonly #workers = new Map<string, string>();
  /** By id. */
  readonly #absent = new Map<string, Absent>();

  constructor(now: () => number) {
    this.#now = now;
    this.#startedAt = now();
  }

  /** At the start: what was written of a token. */
  letIn(tokenName: string, requests: readonly [id: string, at: number][]): void {
    this.#letIn.set(tokenName, new Map(requests));
  }

  /** Epoch ms; null: it was not let in. */
  letInAt(tokenName: string, id: string): number | null {
    return this.#letIn.get(tokenName)?.get(id) ?? null;
  }

  /** To be written once more: there may be another restart before they are asked for again. */
  allLetIn(tokenName: string): Iterable<[id: string, at: number]> {
    if (this.#now() > this.#startedAt + ASKED_AGAIN_MS) this.#letIn.clear();
    return this.#letIn.get(tokenName) ?? [];
  }

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
