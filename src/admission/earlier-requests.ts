/** A worker that lost its connection and may be back. */
interface Absent {
  /** The end of the worker's grace, epoch ms. */
  until: number;
  /** Whether the worker has reported, since the queue started, which requests it goes on with. */
  isKnown: boolean;
}

/** Every gateway that repeats its requests after a restart has done so within this many ms of the start. */
const ASKED_AGAIN_MS = 300_000;

/**
 * Requests from before a restart of the queue. Only their workers know which of them run, and report it when they
 * register: until every earlier worker has registered or its grace is over, the queue does not know how many there are.
 * The gateway asks again for those that waited for a slot. The tables say which requests were admitted, so none counts
 * twice.
 */
export class EarlierRequests {
  readonly #now: () => number;
  readonly #end: (id: string) => void;
  readonly #startedAt: number;
  /** The time when each admitted and counted request was admitted, epoch ms, by token and request id. */
  readonly #admitted = new Map<string, ReadonlyMap<string, number>>();
  /** The worker that runs each request, by request id. */
  readonly #workers = new Map<string, string>();
  /** Workers that are away, by worker id. */
  readonly #absent = new Map<string, Absent>();

  /** @param end frees what a request held */
  constructor(now: () => number, end: (id: string) => void) {
    this.#now = now;
    this.#end = end;
    this.#startedAt = now();
  }

  /** Restores the admitted requests of a token when the queue starts. */
  admitted(tokenName: string, requests: readonly [id: string, at: number][]): void {
    this.#admitted.set(tokenName, new Map(requests));
  }

  /** Returns when the request was admitted, epoch ms; null if it was not. */
  admittedAt({ id, token_name }: { id: string; token_name: string | null }): number | null {
    return this.#admitted.get(token_name ?? '')?.get(id) ?? null;
  }

  /**
   * Returns a token's admitted requests to write once more, since another restart may come before they are repeated.
   */
  allAdmitted(tokenName: string): Iterable<[id: string, at: number]> {
    if (this.#now() > this.#startedAt + ASKED_AGAIN_MS) this.#admitted.clear();
    return this.#admitted.get(tokenName) ?? [];
  }

  /** Notes that a worker goes on with the request. */
  add(id: string, workerId: string): void {
    this.#workers.set(id, workerId);
  }

  /** Forgets a request that is over. */
  delete(id: string): void {
    this.#workers.delete(id);
  }

  /**
   * Frees what a request held that its worker reports as over, if the queue knows no job of it.
   * @returns whether it is such a request
   */
  ended(id: string): boolean {
    const isKnown = this.#workers.delete(id);
    if (isKnown) this.#end(id);
    return isKnown;
  }

  /**
   * Awaits, when the queue starts, a worker that was connected before and has not reported what it goes on with.
   * @param until epoch ms
   */
  awaitWorker(workerId: string, until: number): void {
    this.#absent.set(workerId, { until, isKnown: false });
  }

  /** Notes that a worker with earlier requests lost its connection. @param until epoch ms until which it may be back */
  lostWorker(workerId: string, until: number): void {
    if (this.#of(workerId).length > 0) this.#absent.set(workerId, { until, isKnown: true });
  }

  /** Ends the requests that a worker does not go on with, once it has registered. @param running what it goes on with */
  registered(workerId: string, running: ReadonlyMap<string, unknown>): void {
    this.#absent.delete(workerId);
    for (const id of this.#of(workerId)) if (!running.has(id)) this.ended(id);
  }

  /** Gives every absent worker time until then at least. @param until epoch ms */
  postpone(until: number): void {
    for (const absent of this.#absent.values()) absent.until = Math.max(absent.until, until);
  }

  /** Ends the requests of workers that are not back in time. */
  endLost(): void {
    const now = this.#now();
    const gone = [...this.#absent].filter(([, { until }]) => until <= now).map(([workerId]) => workerId);
    for (const workerId of gone) this.#absent.delete(workerId);
    for (const workerId of gone) for (const id of this.#of(workerId)) this.ended(id);
  }

  /** Epoch ms at which `endLost` has something to do; null if no worker is away. */
  get nextLost(): number | null {
    const times = [...this.#absent.values()].map(({ until }) => until);
    return times.length > 0 ? Math.min(...times) : null;
  }

  /** Epoch ms by which all earlier requests are known at the latest; null if they are known already. */
  get unknownUntil(): number | null {
    const unknown = [...this.#absent.values()].filter(({ isKnown }) => !isKnown);
    return unknown.length > 0 ? Math.max(...unknown.map(({ until }) => until)) : null;
  }

  #of(workerId: string): string[] {
    return [...this.#workers].filter(([, by]) => by === workerId).map(([id]) => id);
  }
}
