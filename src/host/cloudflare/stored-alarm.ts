import type { Alarm } from '../../durable/ports.ts';

/** The alarm calls of a Durable Object's storage. */
interface AlarmStorage {
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number): Promise<void>;
  deleteAlarm(): Promise<void>;
}

/**
 * The alarm of a Durable Object, which its rules read without waiting.
 *
 * The runtime stores whole ms. An alarm that its handler sets for the very ms for which it fired never fires again,
 * since the runtime sees no change.
 */
export class StoredAlarm implements Alarm {
  readonly #storage: AlarmStorage;
  #at: number | null;
  /** The earliest time for which the alarm may be set while its handler runs, epoch ms. */
  #earliest = 0;
  #isOver = false;

  private constructor(storage: AlarmStorage, at: number | null) {
    this.#storage = storage;
    this.#at = at;
  }

  static async read(storage: AlarmStorage): Promise<StoredAlarm> {
    return new StoredAlarm(storage, await storage.getAlarm());
  }

  get(): number | null {
    return this.#at;
  }

  set(atMs: number): void {
    if (this.#isOver) return;
    this.#at = Math.max(Math.ceil(atMs), this.#earliest);
    void this.#storage.setAlarm(this.#at);
  }

  /** Sets the alarm for the next object: what this object sets after that is ignored. */
  setForNext(atMs: number): void {
    this.set(atMs);
    this.#isOver = true;
  }

  clear(): void {
    if (this.#isOver) return;
    this.#at = null;
    void this.#storage.deleteAlarm();
  }

  /**
   * Runs the handler when the runtime calls the object's `alarm`.
   * @param now epoch ms; the runtime fires at once if the set time is over
   * @param handler gets the time for which the alarm was set, epoch ms, if that is known
   */
  async fires(now: number, handler: (setFor: number | null) => unknown): Promise<void> {
    const setFor = this.#at;
    this.#earliest = Math.max(setFor ?? 0, now) + 1;
    this.#at = null;
    try {
      await handler(setFor);
    } finally {
      // The clock may be set back, so the bound ends with the handler.
      this.#earliest = 0;
    }
  }
}
