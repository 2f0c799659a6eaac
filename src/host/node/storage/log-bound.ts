import type { Checkpointed } from './checkpoint-thread.ts';

/** How long the log of a database may be, bytes. */
export interface LogLimits {
  /** From here on it is copied into the database, beside the work. */
  copied: number;
  /** From here on the next group waits for a copy that no write disturbs, so that the log begins anew. */
  held: number;
  /** From here on the copy is made at once, in the thread of everything: for writes that wait for nothing. */
  most: number;
}

export const LOG_LIMITS: LogLimits = { copied: 4 * 2 ** 20, held: 16 * 2 ** 20, most: 64 * 2 ** 20 };

/** After a copy that somebody who reads has kept from taking all, ms. */
const AGAIN_MS = 1000;
/** After a copy that failed, ms: each is logged. */
const AFTER_FAILURE_MS = 10_000;

interface LogPorts {
  /** Size of the log's file. */
  bytes(): number;
  /** In the thread of checkpoints. */
  copy(): Promise<Checkpointed>;
  /** In this thread. @returns whether all was copied */
  copyNow(): boolean;
  /** Commits what is open. */
  commit(): void;
  failed(error: { message: string; errcode: number }): void;
  /** Ms of a clock that never goes back. */
  now(): number;
}

/**
 * Keeps the log of one database bounded. SQLite begins a log anew with the first write that finds all of it copied;
 * under endless writes there is always something after what the last copy has taken.
 */
export class LogBound {
  readonly #limits: LogLimits;
  readonly #ports: LogPorts;
  #bytes = 0;
  /** Copied when it is longer than this. */
  #copiedAt: number;
  #copying: Promise<boolean> | null = null;
  #room: Promise<void> | null = null;
  #notBefore = 0;

  constructor(limits: LogLimits, ports: LogPorts) {
    this.#limits = limits;
    this.#copiedAt = limits.copied;
    this.#ports = ports;
  }

  /** Something was committed. */
  grown(): void {
    this.#bytes = this.#ports.bytes();
    if (this.#bytes <= this.#limits.copied) this.#copiedAt = this.#limits.copied;
    if (this.#bytes > this.#copiedAt && !this.#copying && this.#mayCopy) void this.copy();
  }

  /** To be awaited before the next group is written; null: there is room. */
  room(): Promise<void> | null {
    if (this.#room) return this.#room;
    if (this.#bytes <= this.#limits.held || !this.#mayCopy) return null;
    this.#room = this.#makeRoom().finally(() => {
      this.#room = null;
    });
    return this.#room;
  }

  /** A transaction begins. */
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
    // Nothing is written while this one is made, so it takes all; the commit may have begun it.
    if (this.#mayCopy && !(await (this.#copying ?? this.copy()))) this.#later();
  }

  /** Copies it now. @returns whether all was copied */
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

  #later(ms = AGAIN_MS): void {
    this.#notBefore = Math.max(this.#notBefore, this.#ports.now() + ms);
  }
}
