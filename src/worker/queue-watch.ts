import type { Clock, Timer } from './clock.ts';

/** Most time between two looks, ms. */
const LOOK_EVERY_MS = 5000;

/** The part of a worker that the watch needs. */
export interface Watched {
  readonly hasQueue: boolean;
  queueLost(seconds: number): void;
}

/**
 * Ends a worker that has been without its queue for long, as a dead man's switch: its machine costs money for nothing,
 * and the launcher that could end it may be gone too.
 */
export class QueueWatch {
  readonly #clock: Clock;
  readonly #worker: Watched;
  readonly #limitSeconds: number;
  readonly #lookEveryMs: number;
  #lostMs = 0;
  #lookedAt = 0;
  #timer: Timer;

  /** @param limitSeconds 0: the watch never gives up */
  constructor(clock: Clock, worker: Watched, limitSeconds: number) {
    this.#clock = clock;
    this.#worker = worker;
    this.#limitSeconds = limitSeconds;
    this.#lookEveryMs = Math.min(LOOK_EVERY_MS, (limitSeconds * 1000) / 4);
  }

  start(): void {
    if (this.#limitSeconds === 0) return;
    this.#lookedAt = this.#clock.now();
    this.#lookLater();
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer);
  }

  #lookLater(): void {
    this.#timer = this.#clock.setTimeout(() => this.#look(), this.#lookEveryMs);
  }

  #look(): void {
    // A machine that stood still, as a paused virtual one does, has not looked for its queue in that time.
    const passedMs = Math.min(this.#clock.now() - this.#lookedAt, 2 * this.#lookEveryMs);
    this.#lookedAt = this.#clock.now();
    this.#lostMs = this.#worker.hasQueue ? 0 : this.#lostMs + passedMs;
    if (this.#lostMs >= this.#limitSeconds * 1000) this.#worker.queueLost(this.#limitSeconds);
    else this.#lookLater();
  }
}
