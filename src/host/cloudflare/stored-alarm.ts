import type { Alarm } from '../../durable/ports.ts';

/** Of a Durable Object. */
interface AlarmStorage {
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number): Promise<void>;
  deleteAlarm(): Promise<void>;
}

/**
 * The alarm of a Durable Object, which its rules read without waiting.
 *
 * The runtime keeps whole ms, and an alarm that is set for the very ms for which it fires, before its handler has ended,
 * never fires again: the runtime sees no change.
 */
export class StoredAlarm implements Alarm {
  readonly #storage: AlarmStorage;
  #at: number | null;
  /** Epoch ms: while its handler runs, it is set for none before. */
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

  /** Sets it for the next object: what this one sets after that does not count. */
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
   * The runtime calls the object's `alarm`.
   * @param now epoch ms; the runtime fires at once what was set for a time that was over
   * @param handler gets the time for which it was set, epoch ms, if that is known
   */
  async fires(now: number, handler: (setFor: number | null) => unknown): Promise<void> {
    const setFor = this.#at;
    this.#earliest = Math.max(setFor ?? 0, now) + 1;
    this.#at = null;
    try {
      await handler(setFor);
    } finally {
      // A clock may be set back.
      this.#earliest = 0;
    }
  }
}
