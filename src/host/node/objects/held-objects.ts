import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log, ObjectHost } from '../../../durable/host.ts';
import { queueFolder } from '../../../state/queue-folder.ts';
import { ClockWatch } from './clock-watch.ts';
import { HeldObject } from './held-object.ts';
import type { Caller } from './life.ts';
import type { OpenObjects } from './open-objects.ts';

interface HeldObjectsParts {
  /** Has a folder for each queue id, with a database for each kind of object. */
  dataDir: string;
  make(kind: string, host: ObjectHost<never>, caller: Caller): object | Promise<object>;
  /** Bounds those that are open. */
  open: OpenObjects;
  log: Log;
  /** What was acknowledged cannot be kept any more: the process has to end. */
  fatal(error: Error): void;
}

const DATABASE = /^(\w+)\.sqlite$/;

/** Every object of a state folder, by kind and queue id. */
export class HeldObjects {
  readonly #parts: HeldObjectsParts;
  /** By the place of their databases, in the folder of data. */
  readonly #held = new Map<string, HeldObject>();
  /** The same by kind and queue id: making the name of a folder takes longer than most calls. */
  readonly #named = new Map<string, HeldObject>();
  readonly #clock: ClockWatch;
  #hasStopped = false;

  constructor(parts: HeldObjectsParts) {
    this.#parts = parts;
    this.#clock = new ClockWatch({
      setBack: () => {
        for (const held of this.#held.values()) void held.beginAnew();
      },
      setForward: () => {
        for (const held of this.#held.values()) held.armAlarm();
      },
    });
  }

  of(kind: string, queueId: string): HeldObject {
    const name = `${kind} ${queueId}`;
    const known = this.#named.get(name);
    if (known) return known;
    const held = this.#at(queueFolder(queueId), kind, queueId);
    held.named(queueId);
    this.#named.set(name, held);
    return held;
  }

  /** Wakes those whose alarms are set, whoever set them. Never rejects. */
  async wakeAll(): Promise<void> {
    const { dataDir } = this.#parts;
    for (const folder of await this.#entriesOf(dataDir)) {
      for (const file of await this.#entriesOf(join(dataDir, folder))) {
        const [, kind] = DATABASE.exec(file) ?? [];
        if (kind !== undefined && !this.#hasStopped) await this.#at(folder, kind, null).wake();
      }
    }
  }

  /** Nothing, where it cannot be read: what is in others has to wake. */
  async #entriesOf(folder: string): Promise<string[]> {
    try {
      return await readdir(folder);
    } catch (error) {
      // A file that somebody has left there.
      if ((error as NodeJS.ErrnoException).code !== 'ENOTDIR')
        this.#parts.log('error', 'a folder of data cannot be read', { folder, error: String(error) });
      return [];
    }
  }

  /** Ends them all; nothing may be asked of them after that. */
  async stop(): Promise<void> {
    this.#hasStopped = true;
    this.#clock.end();
    this.#parts.open.end();
    await Promise.all(Array.from(this.#held.values(), (held) => held.stop()));
  }

  /** @param queueId null: its database tells it */
  #at(folder: string, kind: string, queueId: string | null): HeldObject {
    const place = join(folder, `${kind}.sqlite`);
    const known = this.#held.get(place);
    if (known) return known;
    const { dataDir, make, open, log, fatal } = this.#parts;
    const held = new HeldObject({
      queueId,
      path: join(dataDir, place),
      make: (host, caller) => make(kind, host, caller),
      clockMoved: () => this.#clock.lookSoon(),
      open,
      fatal,
      log,
    });
    this.#held.set(place, held);
    return held;
  }
}
