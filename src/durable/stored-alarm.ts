import type { Alarm } from './ports.ts';

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
  /** Epoch ms for which it fired last. */
  #firedFor = 0;

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
    const at = Math.ceil(atMs);
    this.#at = at === this.#firedFor ? at + 1 : at;
    void this.#storage.setAlarm(this.#at);
  }

  clear(): void {
    this.#at = null;
    void this.#storage.deleteAlarm();
  }

  /** The runtime calls the object's `alarm`: it is no longer set. */
  fired(): void {
    this.#firedFor = this.#at ?? 0;
    this.#at = null;
  }
}
