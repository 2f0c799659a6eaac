import { setTimeout as sleep } from 'node:timers/promises';

/** An object that may be open. */
interface Closable {
  /** The time since which the object has been idle, ms of `performance.now()`; null: it is at work. */
  readonly idleSince: number | null;
  closeIdle(): void;
}

/** An object that was used within this many ms stays open: it may be used again at once. */
const LEAST_IDLE_MS = 1000;

/** A caller from outside waits at most this many ms for its turn: after 1.5 s its answer already has its status. */
const LONGEST_LINE_MS = 300;

/**
 * An object that was just made is at work for about this many ms: it writes in the background, and reports to another
 * object, which is made for that.
 */
const AT_WORK_MS = 5000;
const MADE_FOR_ONE = 2;

/**
 * Bounds the number of idle objects that are open: each has four descriptors and some memory, and callers may invent
 * any number of queue ids. It closes the objects that have been idle for longest. While the bound is reached, it opens
 * further objects so slowly that only about as many as the bound are in their first work.
 */
export class OpenObjects {
  readonly #mostIdle: number;
  readonly #pauseMs: number;
  readonly #open = new Set<Closable>();
  readonly #stopped = new AbortController();
  #looking: NodeJS.Timeout | null = null;
  #lastTurn: Promise<unknown> = Promise.resolve();
  #inLine = 0;
  /** The number of objects that may be opened and are not open yet. */
  #opening = 0;

  /** @param pauseMs the time between two objects that are opened beyond `mostIdle` */
  constructor(mostIdle: number, pauseMs = (MADE_FOR_ONE * AT_WORK_MS) / mostIdle) {
    this.#mostIdle = mostIdle;
    this.#pauseMs = pauseMs;
  }

  /** The error for a caller from outside, if too many objects are to be opened first; null: the caller may wait. */
  get problem(): Error | null {
    if (this.#inLine === 0 || (this.#inLine + 1) * this.#pauseMs <= LONGEST_LINE_MS) return null;
    return Object.assign(new Error('too many objects are opened at once'), { overloaded: true });
  }

  /**
   * Resolves when another object may be opened.
   * @param inLine waits behind others if many are open; false: an object that somebody waits for needs the new one
   * @returns the function to call when the object is open, or could not be opened
   */
  async room(inLine: boolean): Promise<() => void> {
    if (inLine && this.#open.size + this.#opening >= this.#mostIdle) await this.#turn();
    this.#opening += 1;
    return () => {
      this.#opening -= 1;
    };
  }

  opened(held: Closable): void {
    this.#open.add(held);
    this.#lookLater();
  }

  closed(held: Closable): void {
    this.#open.delete(held);
  }

  /** Stops closing objects, and lets all waiting objects open. */
  end(): void {
    clearTimeout(this.#looking ?? undefined);
    this.#stopped.abort();
  }

  async #turn(): Promise<void> {
    const { signal } = this.#stopped;
    this.#inLine += 1;
    this.#lastTurn = this.#lastTurn.then(() => sleep(this.#pauseMs, null, { signal }).catch(() => {}));
    await this.#lastTurn;
    this.#inLine -= 1;
  }

  #lookLater(): void {
    if (this.#open.size <= this.#mostIdle || this.#looking || this.#stopped.signal.aborted) return;
    this.#looking = setTimeout(() => {
      this.#looking = null;
      this.#look();
      this.#lookLater();
    }, LEAST_IDLE_MS);
    this.#looking.unref();
  }

  #look(): void {
    const idle: [since: number, held: Closable][] = [];
    for (const held of this.#open) if (held.idleSince !== null) idle.push([held.idleSince, held]);
    idle.sort(([one], [other]) => one - other);
    const usedBefore = performance.now() - LEAST_IDLE_MS;
    for (const [since, held] of idle.slice(0, Math.max(0, idle.length - this.#mostIdle))) {
      if (since <= usedBefore) held.closeIdle();
    }
  }
}
