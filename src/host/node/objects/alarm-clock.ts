import { systemClock, type Timer } from '../../../process/clock.ts';
import type { ObjectAlarm } from '../storage/alarm.ts';

interface AlarmClockPorts {
  /** The alarm that the object's storage holds. */
  alarm: ObjectAlarm;
  /** Returns the time, epoch ms. */
  now(): number;
  /** Runs the object's handler. Rejects if it failed; never settles if the object has ended. @param setFor epoch ms */
  fire(setFor: number | null): Promise<void>;
  pauses: Pauses;
}

/**
 * Fires the alarm of an object once its time is stored: never twice at a time, and after a failure again once a pause
 * is over. The stored time stays until the handler has succeeded, so if the object ends before that, its alarm fires
 * again.
 */
export class AlarmClock {
  readonly #ports: AlarmClockPorts;
  #timer: Timer;
  #isFiring = false;
  #hasEnded = false;

  constructor(ports: AlarmClockPorts) {
    this.#ports = ports;
  }

  get isFiring(): boolean {
    return this.#isFiring;
  }

  /** Sets the timer. The owner calls it when another time was stored, and when the wall clock was set. */
  arm(): void {
    const { alarm, now, pauses } = this.#ports;
    systemClock.clearTimeout(this.#timer);
    const at = alarm.get();
    if (at === null || this.#isFiring || this.#hasEnded) return;
    this.#timer = systemClock.setTimeout(() => void this.#due(), Math.max(at - now(), pauses.leftMs()));
  }

  end(): void {
    this.#hasEnded = true;
    systemClock.clearTimeout(this.#timer);
  }

  async #due(): Promise<void> {
    const { alarm, now, fire, pauses } = this.#ports;
    const at = alarm.get();
    // A timer may fire a ms early, and the wall clock may have been set back slightly.
    if (at === null || now() < at || pauses.leftMs() > 0) return this.arm();
    this.#isFiring = true;
    const setFor = alarm.fires();
    try {
      await fire(setFor);
      alarm.fired();
      pauses.worked();
    } catch {
      pauses.failed();
      alarm.failed();
    }
    this.#isFiring = false;
    this.arm();
  }
}

/** The pause after the first failure, ms. Each further failure in a row doubles it, as Durable Objects do. */
const FIRST_MS = 2000;
const LONGEST_MS = 64_000;

/** Computes growing pauses before something that failed is tried again. They outlive the object that failed. */
export class Pauses {
  #failures = 0;
  /** The end of the pause, ms of `performance.now()`. */
  #notBefore = 0;

  failed(): void {
    this.#notBefore = performance.now() + Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#failures);
    this.#failures += 1;
  }

  worked(): void {
    this.#failures = 0;
    this.#notBefore = 0;
  }

  /** Returns the rest of the pause, ms. */
  leftMs(): number {
    return Math.max(0, this.#notBefore - performance.now());
  }
}
