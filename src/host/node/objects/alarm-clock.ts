import type { ObjectAlarm } from '../storage/alarm.ts';
import type { Pauses } from './pauses.ts';
import { type Later, later } from './timer.ts';

interface AlarmClockPorts {
  /** Of the object's storage. */
  alarm: ObjectAlarm;
  /** Epoch ms */
  now(): number;
  /** @param setFor epoch ms; it has failed when this rejects, and never settles where the object has ended */
  fire(setFor: number | null): Promise<void>;
  pauses: Pauses;
}

/**
 * Fires the alarm of an object, once its time is stored: never twice at a time, and after a pause again when it failed.
 * What is stored stays until the handler has ended well, so the alarm of an object that ends meanwhile fires again.
 */
export class AlarmClock {
  readonly #ports: AlarmClockPorts;
  #timer: Later | null = null;
  #isFiring = false;
  #hasEnded = false;

  constructor(ports: AlarmClockPorts) {
    this.#ports = ports;
  }

  get isFiring(): boolean {
    return this.#isFiring;
  }

  /** Sets the timer: to be called when another time was stored, and when the wall clock was set. */
  arm(): void {
    const { alarm, now, pauses } = this.#ports;
    this.#timer?.cancel();
    this.#timer = null;
    const at = alarm.get();
    if (at === null || this.#isFiring || this.#hasEnded) return;
    this.#timer = later(Math.max(at - now(), pauses.leftMs()), () => void this.#due());
  }

  end(): void {
    this.#hasEnded = true;
    this.#timer?.cancel();
  }

  async #due(): Promise<void> {
    const { alarm, now, fire, pauses } = this.#ports;
    const at = alarm.get();
    // A timer may come a ms early, and the wall clock may have been set back a little.
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
