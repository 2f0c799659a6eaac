import { setTimeout as sleep } from 'node:timers/promises';

/** An object that may be open. */
interface Closable {
  /** Ms of `performance.now()`; null: something is under way in it. */
  readonly idleSince: number | null;
  closeIdle(): void;
}

/** An object that was used within this time may be used again at once, ms. */
const LEAST_IDLE_MS = 1000;

/** A caller from outside waits no longer than this for its turn, ms: an answer of more than 1.5 s has its status already. */
const LONGEST_LINE_MS = 300;

/**
 * An object that was just made has something to do for about so long, ms: what it writes behind, what it reports to
 * another object, which is made for that.
 */
const AT_WORK_MS = 5000;
const MADE_FOR_ONE = 2;

/**
 * Bounds how many objects are open in which nothing happens: each has four descriptors and some memory, and there may be
 * as many as queue ids that somebody makes up. Those that have been idle for longest are closed. Where there are more
 * than that, others are opened slowly enough that about as many are at work for the first time.
 */
export class OpenObjects {
  readonly #mostIdle: number;
  readonly #pauseMs: number;
  readonly #open = new Set<Closable>();
  readonly #stopped = new AbortController();
  #looking: NodeJS.Timeout | null = null;
  #lastTurn: Promise<unknown> = Promise.resolve();
  #inLine = 0;
  /** That have room, and are not open yet. */
  #opening = 0;

  /** @param pauseMs between two that are opened beyond that */
  constructor(mostIdle: number, pauseMs = (MADE_FOR_ONE * AT_WORK_MS) / mostIdle) {
    this.#mostIdle = mostIdle;
    this.#pauseMs = pauseMs;
  }

  /** Why a caller from outside should come again: many others are opened first. Null: it need not. */
  get problem(): Error | null {
    if (this.#inLine === 0 || (this.#inLine + 1) * this.#pauseMs <= LONGEST_LINE_MS) return null;
    return Object.assign(new Error('too many objects are opened at once'), { overloaded: true });
  }

  /**
   * Resolves when another one may be opened.
   * @param inLine behind others where there are many; false: another object asks for it, which somebody waits for
   * @returns to be called when it is open, or could not be opened
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

  /** None is closed from now on, and all that wait are let in. */
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
