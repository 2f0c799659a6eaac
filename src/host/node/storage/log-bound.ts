import { setTimeout as sleep } from 'node:timers/promises';
import type { Checkpointed } from './checkpoint-thread.ts';

/** The lengths of a database's log at which something is done about it, bytes. */
export interface LogLimits {
  /** From this length the log is copied into the database in the background. */
  copied: number;
  /** From this length the next group waits for a copy that no write disturbs, so that the log begins anew. */
  held: number;
  /** From this length the main thread copies the log at once, since some writes do not wait for room. */
  most: number;
}

export const LOG_LIMITS: LogLimits = { copied: 4 * 2 ** 20, held: 16 * 2 ** 20, most: 64 * 2 ** 20 };

/** The pause after a copy that was incomplete because of a reader, ms. */
const AGAIN_MS = 1000;
/** The pause after a failed copy, ms: each failure is logged. */
const AFTER_FAILURE_MS = 10_000;

interface LogPorts {
  /** Returns the size of the log's file. */
  bytes(): number;
  /** Copies the log in the thread of checkpoints. */
  copy(): Promise<Checkpointed>;
  /** Copies the log in this thread. @returns whether all was copied */
  copyNow(): boolean;
  /** Commits the open transaction. */
  commit(): void;
  failed(error: { message: string; errcode: number }): void;
  /** Returns the time of a clock that never goes back, ms. */
  now(): number;
}

/**
 * Bounds the log of one database. SQLite begins a log anew with the first write that finds all of it copied; under
 * endless writes there is always something that the last copy has not included.
 */
export class LogBound {
  readonly #limits: LogLimits;
  readonly #ports: LogPorts;
  #bytes = 0;
  /** The length beyond which the next copy begins, bytes. */
  #copiedAt: number;
  #copying: Promise<boolean> | null = null;
  #room: Promise<void> | null = null;
  #notBefore = 0;

  constructor(limits: LogLimits, ports: LogPorts) {
    this.#limits = limits;
    this.#copiedAt = limits.copied;
    this.#ports = ports;
  }

  /** Measures the log after a commit, and begins a copy if it is too long. */
  grown(): void {
    this.#bytes = this.#ports.bytes();
    if (this.#bytes <= this.#limits.copied) this.#copiedAt = this.#limits.copied;
    if (this.#bytes > this.#copiedAt && !this.#copying && this.#mayCopy) void this.copy();
  }

  /** Makes room if the log is too long. The next group waits for the promise; null: there is room. */
  room(): Promise<void> | null {
    if (this.#room) return this.#room;
    if (this.#bytes <= this.#limits.held || !this.#mayCopy) return null;
    this.#room = this.#makeRoom().finally(() => {
      this.#room = null;
    });
    return this.#room;
  }

  /** Copies the log at once if it is far too long, before a transaction begins. */
  beforeBegin(): void {
    if (this.#bytes <= this.#limits.most || !this.#mayCopy) return;
    if (this.#ports.copyNow()) this.#bytes = 0;
    else this.#later();
  }

  /** Resolves when no copy is being made. */
  async idle(): Promise<void> {
    await this.#copying;
  }

  get #mayCopy(): boolean {
    return this.#ports.now() >= this.#notBefore;
  }

  async #makeRoom(): Promise<void> {
    await this.#copying;
    this.#ports.commit();
    // Nothing is written during this copy, so it is complete; the commit may have begun it.
    if (this.#mayCopy && !(await (this.#copying ?? this.copy()))) this.#later();
  }

  /** Copies the log in the thread of checkpoints. @returns whether all was copied */
  copy(): Promise<boolean> {
    this.#copiedAt = this.#bytes + this.#limits.copied;
    this.#copying = this.#ports.copy().then((did) => {
      this.#copying = null;
      if (did.error) {
        this.#later(AFTER_FAILURE_MS);
        this.#ports.failed(did.error);
      }
      // The file is cut with the next commit.
      if (did.isWhole) this.#bytes = 0;
      return did.isWhole;
    });
    return this.#copying;
  }

  /**
   * Copies the log until the database's file is cut. Writes and readers may make several copies incomplete; and where
   * a write came during a copy, SQLite reports that one as complete but does not cut the file.
   */
  async copyAll(isCut: () => boolean): Promise<void> {
    for (;;) {
      await this.#copying;
      if (isCut()) return;
      await this.copy();
      if (isCut()) return;
      await sleep(Math.max(AGAIN_MS, this.#notBefore - this.#ports.now()), undefined, { ref: false });
    }
  }

  #later(ms = AGAIN_MS): void {
    this.#notBefore = Math.max(this.#notBefore, this.#ports.now() + ms);
  }
}
