import type { Alarm } from '../durable/ports.ts';

/**
 * Shares the one alarm of an object among several parts, each of which sets its own: the object's alarm is set to the
 * earliest.
 */
export class Alarms {
  readonly #alarm: Alarm;
  readonly #parts: Part[] = [];

  constructor(alarm: Alarm) {
    this.#alarm = alarm;
  }

  /**
   * Makes the alarm of one part. An alarm set before the object started may have been for any part: it is due for each,
   * and none takes it for its own.
   */
  part(): Alarm & { isDue(now: number): boolean } {
    const part = new Part(this.#alarm.get(), () => this.#setEarliest());
    this.#parts.push(part);
    return part;
  }

  #setEarliest(): void {
    const times = this.#parts.flatMap((part) => part.rings() ?? []);
    const earliest = times.length === 0 ? null : Math.min(...times);
    if (earliest === this.#alarm.get()) return;
    if (earliest === null) this.#alarm.clear();
    else this.#alarm.set(earliest);
  }
}

class Part implements Alarm {
  #at: number | null = null;
  /** The alarm that the object had when it started, until this part sets or clears its own. */
  #before: number | null;
  readonly #changed: () => void;

  constructor(before: number | null, changed: () => void) {
    this.#before = before;
    this.#changed = changed;
  }

  /** Returns when this part may be due next, epoch ms; null: never. */
  rings(): number | null {
    return this.#at ?? this.#before;
  }

  get(): number | null {
    return this.#at;
  }

  set(atMs: number): void {
    // Stored alarms have whole ms: an alarm that rang early would be due for no part, and would not be set again.
    this.#change(Math.ceil(atMs));
  }

  clear(): void {
    this.#change(null);
  }

  isDue(now: number): boolean {
    const at = this.rings();
    return at !== null && at <= now;
  }

  #change(at: number | null): void {
    [this.#at, this.#before] = [at, null];
    this.#changed();
  }
}

export interface SaveTimerPorts {
  save(): void;
  /** Returns the time, epoch ms. */
  now(): number;
  /** Runs something after a time, ms. @returns calls it off */
  after(ms: number, run: () => void): () => void;
}

/** Saves once for all requests, at the earliest time that one of them named. */
export class SaveTimer {
  readonly #ports: SaveTimerPorts;
  #armed: { disarm: () => void; at: number } | null = null;

  constructor(ports: SaveTimerPorts) {
    this.#ports = ports;
  }

  /** Saves in so many ms at the latest. */
  within(ms: number): void {
    const { save, now, after } = this.#ports;
    const at = now() + ms;
    if (this.#armed && this.#armed.at <= at) return;
    this.#armed?.disarm();
    const disarm = after(ms, () => {
      this.#armed = null;
      save();
    });
    this.#armed = { disarm, at };
  }
}
