import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log, ObjectHost } from '../../../durable/host.ts';
import { queueFolder } from '../../../state/folder.ts';
import type { CommitTaker } from '../storage/recorder.ts';
import { HeldObject } from './held-object.ts';
import type { Caller } from './life.ts';
import type { OpenObjects } from './open-objects.ts';

interface HeldObjectsParts {
  /** The folder with a folder for each queue id, which has a database for each kind of object. */
  dataDir: string;
  make(kind: string, host: ObjectHost<never>, caller: Caller): object | Promise<object>;
  /** Bounds the number of open objects. */
  open: OpenObjects;
  log: Log;
  /** The owner of the journal that stores what the objects commit; left out: there is none. */
  owner?: ActingOwner | undefined;
  /** Called when a sync failed, so that acknowledged data cannot be kept any more: the process has to end. */
  fatal(error: Error): void;
}

/** Takes what the objects commit, and says whether they may act. */
export interface ActingOwner {
  /** Why nothing may leave the objects now; null: it may. */
  readonly problem: Error | null;
  /** Adds what is called when nothing may leave any more. */
  onPause(paused: (error: Error) => void): void;
  /** Takes the commits of one database. @param database its path below the folder of databases, with `/` */
  commitsOf(database: string): CommitTaker;
}

const DATABASE = /^(\w+)\.sqlite$/;

/** Makes and stores every object of a state folder, by kind and queue id. */
export class HeldObjects {
  readonly #parts: HeldObjectsParts;
  /** The objects by the path of their database within the data folder. */
  readonly #held = new Map<string, HeldObject>();
  /** The objects by kind and queue id, since computing the name of a folder takes longer than most calls. */
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
    parts.owner?.onPause((error) => {
      for (const held of this.#held.values()) held.pause(error);
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

  /** Wakes the objects whose alarms are set, even by an earlier process. Never rejects. */
  async wakeAll(): Promise<void> {
    const { dataDir } = this.#parts;
    for (const folder of await this.#entriesOf(dataDir)) {
      for (const file of await this.#entriesOf(join(dataDir, folder))) {
        const [, kind] = DATABASE.exec(file) ?? [];
        if (kind !== undefined && !this.#hasStopped) await this.#at(folder, kind, null).wake();
      }
    }
  }

  /** Lists a folder. Returns nothing if it cannot be read, so that the objects of other folders still wake. */
  async #entriesOf(folder: string): Promise<string[]> {
    try {
      return await readdir(folder);
    } catch (error) {
      // ENOTDIR means that somebody has left a file there.
      if ((error as NodeJS.ErrnoException).code !== 'ENOTDIR')
        this.#parts.log('error', 'a folder of data cannot be read', { folder, error: String(error) });
      return [];
    }
  }

  /** Ends all objects, which accept no calls after that. */
  async stop(): Promise<void> {
    this.#hasStopped = true;
    this.#clock.end();
    this.#parts.open.end();
    await Promise.all(Array.from(this.#held.values(), (held) => held.stop()));
  }

  /** Returns the object in a folder. @param queueId null: the object's database stores it */
  #at(folder: string, kind: string, queueId: string | null): HeldObject {
    const place = join(folder, `${kind}.sqlite`);
    const known = this.#held.get(place);
    if (known) return known;
    const { dataDir, make, open, owner, log, fatal } = this.#parts;
    const held = new HeldObject({
      queueId,
      path: join(dataDir, place),
      make: (host, caller) => make(kind, host, caller),
      clockMoved: () => this.#clock.lookSoon(),
      open,
      problem: owner ? () => owner.problem : () => null,
      commits: owner?.commitsOf(`${folder}/${kind}.sqlite`),
      fatal,
      log,
    });
    this.#held.set(place, held);
    return held;
  }
}

/** The watch ignores corrections of the clock up to this many ms: they pass by themselves. */
const SET_MS = 1000;
const LOOK_EVERY_MS = 1000;

interface ClockWatchPorts {
  /** Called when the clock was set back: times that were set before are far away by the new clock. */
  setBack(): void;
  /** Called when the clock was set forward: timers are late, since they run on another clock. */
  setForward(): void;
}

/** Notices that somebody sets the wall clock, which then moves against the monotonic clock. */
class ClockWatch {
  readonly #ports: ClockWatchPorts;
  readonly #timer: NodeJS.Timeout;
  /** The wall clock's time at which the monotonic clock was 0, epoch ms. */
  #began = began();
  #soon: NodeJS.Immediate | null = null;

  constructor(ports: ClockWatchPorts) {
    this.#ports = ports;
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS);
    this.#timer.unref();
  }

  /** Looks in the next turn, not during the work of the object that has noticed a change. */
  lookSoon(): void {
    this.#soon ??= setImmediate(() => this.look());
  }

  look(): void {
    this.#soon = null;
    const now = began();
    const movedMs = now - this.#began;
    if (Math.abs(movedMs) <= SET_MS) return;
    this.#began = now;
    if (movedMs < 0) this.#ports.setBack();
    else this.#ports.setForward();
  }

  end(): void {
    clearInterval(this.#timer);
  }
}

function began(): number {
  return Date.now() - performance.now();
}
