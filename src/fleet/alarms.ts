import type { Alarm } from '../durable/ports.ts';

/** The one alarm of an object for several who each set their own: it is set to the earliest. */
export class Alarms {
  readonly #alarm: Alarm;
  readonly #parts: Part[] = [];

  constructor(alarm: Alarm) {
    this.#alarm = alarm;
  }

  /** An alarm of one part. What was set before the object started may have been for any of them. */
  part(): Alarm & { isDue(now: number): boolean } {
    const part = new Part(this.#alarm.get(), () => this.#setEarliest());
    this.#parts.push(part);
    return part;
  }

  #setEarliest(): void {
    const times = this.#parts.flatMap((part) => part.get() ?? []);
    const earliest = times.length === 0 ? null : Math.min(...times);
    if (earliest === this.#alarm.get()) return;
    if (earliest === null) this.#alarm.clear();
    else this.#alarm.set(earliest);
  }
}

class Part implements Alarm {
  #at: number | null;
  readonly #changed: () => void;

  constructor(at: number | null, changed: () => void) {
    this.#at = at;
    this.#changed = changed;
  }

  get(): number | null {
    return this.#at;
  }

  set(atMs: number): void {
    // Storage knows whole ms: one that rang before its time would be due to nobody, and not be set again.
    this.#at = Math.ceil(atMs);
    this.#changed();
  }

  clear(): void {
    this.#at = null;
    this.#changed();
  }

  isDue(now: number): boolean {
    return this.#at !== null && this.#at <= now;
  }
}
