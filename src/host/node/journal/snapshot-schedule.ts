import type { Log } from '../../../durable/host.ts';
import type { Journal, Place } from './journal.ts';

/** When a process makes a snapshot: with this many entries since the newest one, or after this time with any. */
export interface SnapshotPace {
  entries: number;
  ms: number;
}

/** The pace of a follower, which holds up nobody by that. */
export const FOLLOWER_PACE: SnapshotPace = { entries: 50_000, ms: 600_000 };
/** The pace of an owner, which has a turn only where nobody follows. */
export const OWNER_PACE: SnapshotPace = { entries: 75_000, ms: 900_000 };

const LOOK_EVERY_MS = 10_000;
/** The pause after a snapshot that was not stored, ms: the next one copies the databases from the beginning. */
const PAUSE_MS = 60_000;

interface SnapshotSchedulePorts {
  /** Returns the last entry that the files of this process have. */
  place(): Place;
  /** Stores a snapshot. @returns its place */
  save(): Promise<Place>;
  log: Log;
}

/** Makes snapshots of a state folder, and removes what only older ones need. */
export class SnapshotSchedule {
  readonly #journal: Journal;
  readonly #pace: SnapshotPace;
  readonly #ports: SnapshotSchedulePorts;
  readonly #timer: NodeJS.Timeout;
  /** The number of the newest snapshot, as it was last seen, and the time since when, ms of `performance.now()`. */
  #newest = 0;
  #newestSince = performance.now();
  #isAtWork = false;
  #notBefore = 0;

  constructor(journal: Journal, pace: SnapshotPace, ports: SnapshotSchedulePorts) {
    this.#journal = journal;
    this.#pace = pace;
    this.#ports = ports;
    this.#timer = setInterval(() => void this.look(), LOOK_EVERY_MS);
    this.#timer.unref();
  }

  end(): void {
    clearInterval(this.#timer);
  }

  /** Makes a snapshot if it is time for one. Never rejects. */
  async look(): Promise<void> {
    if (this.#isAtWork || !this.#isDue || performance.now() < this.#notBefore) return;
    this.#isAtWork = true;
    try {
      // Another process may have made one meanwhile.
      this.#saw((await this.#journal.newestSnapshot())?.seq ?? 0);
      if (this.#isDue) await this.#save();
    } catch (error) {
      this.#notBefore = performance.now() + PAUSE_MS;
      this.#ports.log('warn', 'no snapshot of the journal was stored; the next try is in a minute', {
        error: String(error),
      });
    } finally {
      this.#isAtWork = false;
    }
  }

  get #isDue(): boolean {
    const entries = this.#ports.place().seq - this.#newest;
    const ms = performance.now() - this.#newestSince;
    return entries >= this.#pace.entries || (entries > 0 && ms >= this.#pace.ms);
  }

  async #save(): Promise<void> {
    const before = this.#newest;
    const { seq } = await this.#ports.save();
    this.#saw(seq);
    this.#ports.log('debug', 'a snapshot of the journal is stored', { entry: seq });
    // The snapshot before stays until the next one: a process may be reading it.
    await this.#journal.trim(before).catch((error: unknown) => {
      this.#ports.log('warn', 'old entries of the journal were not removed; the next snapshot removes them', {
        error: String(error),
      });
    });
  }

  #saw(seq: number): void {
    if (seq === this.#newest) return;
    this.#newest = seq;
    this.#newestSince = performance.now();
  }
}
