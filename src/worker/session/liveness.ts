import type { Clock, Timer } from '../clock.ts';

/**
 * Pings a peer and reports when it has been silent for too long. Anything that comes from the peer counts as a sign.
 *
 * A process that stood still finds its timers over before it reads what came meanwhile. So the silence is counted in
 * two halves: where the first one ended during a standstill, the second is time to read the sockets.
 */
export class Liveness {
  readonly #clock: Clock;
  readonly #periodMs: number;
  readonly #silenceMs: number;
  readonly #ping: () => void;
  readonly #dead: () => void;
  #pingTimer: Timer;
  #deadTimer: Timer;

  /** @param silenceMs time from the first ping without an echo until the peer counts as dead */
  constructor(clock: Clock, periodMs: number, silenceMs: number, ping: () => void, dead: () => void) {
    this.#clock = clock;
    this.#periodMs = periodMs;
    this.#silenceMs = silenceMs;
    this.#ping = ping;
    this.#dead = dead;
    this.#arm();
  }

  heard(): void {
    if (this.#deadTimer === undefined) return;
    this.#clock.clearTimeout(this.#deadTimer);
    this.#deadTimer = undefined;
  }

  stop(): void {
    this.heard();
    this.#clock.clearTimeout(this.#pingTimer);
  }

  #arm(): void {
    this.#pingTimer = this.#clock.setTimeout(() => {
      this.#arm();
      this.#deadTimer ??= this.#afterHalf(() => {
        this.#deadTimer = this.#afterHalf(() => {
          this.stop();
          this.#dead();
        });
      });
      this.#ping();
    }, this.#periodMs);
  }

  #afterHalf(run: () => void): Timer {
    return this.#clock.setTimeout(run, this.#silenceMs / 2);
  }
}
