/** A worker that lost its connection and may be back. */
interface Absent {
  /** When the worker's grace ends, epoch ms. */
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
  readonly #startedAt: number;
  /** When each admitted and counted request was admitted, epoch ms, by token and request id. */
  readonly #letIn = new Map<string, ReadonlyMap<string, number>>();
  /** The worker that runs each request, by request id. */
  readonly #workers = new Map<string, string>();
  /** Workers that are away, by worker id. */
  readonly #absent = new Map<string, Absent>();

  constructor(now: () => number) {
    this.#now = now;
    this.#startedAt = now();
  }

  /** Restores the admitted requests of a token when the queue starts. */
  letIn(tokenName: string, requests: readonly [id: string, at: number][]): void {
    this.#letIn.set(tokenName, new Map(requests));
  }

  /** Returns when the request was admitted, epoch ms; null if it was not. */
  letInAt(tokenName: string, id: string): number | null {
    return this.#letIn.get(tokenName)?.get(id) ?? null;
  }

  /**
   * Returns a token's admitted requests to write once more, since another restart may come before they are repeated.
   */
  allLetIn(tokenName: string): Iterable<[id: string, at: number]> {
    if (this.#now() > this.#startedAt + ASKED_AGAIN_MS) this.#letIn.clear();
    return this.#letIn.get(tokenName) ?? [];
  }

  /** Notes that a worker goes on with the request. */
  add(id: string, workerId: string): void {
    this.#workers.set(id, workerId);
  }

  /** Forgets a request. @returns whether a worker went on with it */
  delete(id: string): boolean {
    return this.#workers.delete(id);
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

  /**
   * Notes that a worker has registered.
   * @param running what it goes on with
   * @returns the earlier requests that it does not
   */
  heardWorker(workerId: string, running: ReadonlyMap<string, unknown>): string[] {
    this.#absent.delete(workerId);
    return this.#of(workerId).filter((id) => !running.has(id));
  }

  /** Gives every absent worker time until then at least. @param until epoch ms */
  postpone(until: number): void {
    for (const absent of this.#absent.values()) absent.until = Math.max(absent.until, until);
  }

  /** Forgets workers that are not back in time. @returns the requests that they went on with */
  takeLost(now: number): string[] {
    const gone = [...this.#absent].filter(([, { until }]) => until <= now).map(([workerId]) => workerId);
    for (const workerId of gone) this.#absent.delete(workerId);
    return gone.flatMap((workerId) => this.#of(workerId));
  }

  /** Epoch ms at which `takeLost` has something to return; null if no worker is away. */
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
