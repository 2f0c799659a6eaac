import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Entry,
  type Journal,
  type Lease,
  type Place,
  type Snapshot,
  type SnapshotChunk,
  Taken,
} from '../../src/host/node/journal/journal.ts';

/** The faults of a journal's connection. */
export interface JournalFaults {
  /** Every call fails, and does nothing. */
  isAway: boolean;
  /** Every call waits for this before it reaches the server, as those of a process that stands still; null: none does. */
  held: Promise<void> | null;
  /** Returns whether this append fails although it is carried out, or before it is; null: neither. */
  appendFault(): 'after' | 'before' | null;
  /** Returns how long a call takes, ms. */
  takesMs(): number;
}

/** Every call throws this while the server is away. */
export class ServerAway extends Error {}

/** The server of a journal, in memory. */
export class JournalServer {
  entries: Entry[] = [];
  snapshots: { seq: number; chunks: SnapshotChunk[] }[] = [];
  lease: (Lease & { until: number }) | null = null;

  /** Loses the last entries, as a server does that fails over to a standby which lacks them. */
  loseLast(count: number): void {
    this.entries.splice(-count);
  }

  connect(faults: Partial<JournalFaults> = {}): MemoryJournal {
    return new MemoryJournal(this, {
      isAway: false,
      held: null,
      appendFault: () => null,
      takesMs: () => 0,
      ...faults,
    });
  }
}

/** A connection to a journal in memory, with faults. */
export class MemoryJournal implements Journal {
  readonly faults: JournalFaults;
  readonly #server: JournalServer;

  constructor(server: JournalServer, faults: JournalFaults) {
    this.#server = server;
    this.faults = faults;
  }

  open(): Promise<void> {
    return this.#call(() => {});
  }

  last(): Promise<Place> {
    return this.#call(() => {
      const { seq, epoch } = this.#server.entries.at(-1) ?? { seq: 0, epoch: 0 };
      return { seq, epoch };
    });
  }

  async append({ seq, epoch, body }: Entry): Promise<void> {
    const fault = this.faults.appendFault();
    if (fault === 'before') throw new Error('the connection broke');
    await this.#call(() => {
      if (seq !== (this.#server.entries.at(-1)?.seq ?? 0) + 1) throw new Taken(seq);
      this.#server.entries.push({ seq, epoch, body: Uint8Array.from(body) });
    });
    if (fault === 'after') throw new Error('the connection broke');
  }

  read(afterSeq: number, most: number): Promise<Entry[]> {
    return this.#call(() => this.#server.entries.filter(({ seq }) => seq > afterSeq).slice(0, most));
  }

  renewLease(lease: Lease, ttlMs: number): Promise<boolean> {
    return this.#call(() => {
      if (this.#server.lease && this.#server.lease.epoch > lease.epoch) return false;
      this.#server.lease = { ...lease, until: performance.now() + ttlMs };
      return true;
    });
  }

  lease(): Promise<(Lease & { isAlive: boolean }) | null> {
    return this.#call(() => {
      if (!this.#server.lease) return null;
      const { epoch, address, until } = this.#server.lease;
      return { epoch, address, isAlive: performance.now() < until };
    });
  }

  async saveSnapshot({ seq, chunks }: Snapshot): Promise<void> {
    const all: SnapshotChunk[] = [];
    for await (const { name, bytes } of chunks) all.push({ name, bytes: Uint8Array.from(bytes) });
    await this.#call(() => {
      if (this.#server.snapshots.some((one) => one.seq === seq)) return;
      const snapshots = [...this.#server.snapshots, { seq, chunks: all }];
      this.#server.snapshots = snapshots.sort((one, other) => one.seq - other.seq);
    });
  }

  newestSnapshot(): Promise<Snapshot | null> {
    return this.#call(() => {
      const newest = this.#server.snapshots.at(-1);
      return newest ? { seq: newest.seq, chunks: each(newest.chunks) } : null;
    });
  }

  trim(beforeSeq: number): Promise<void> {
    return this.#call(() => {
      this.#server.entries = this.#server.entries.filter(({ seq }) => seq >= beforeSeq);
      this.#server.snapshots = this.#server.snapshots.filter(({ seq }) => seq >= beforeSeq);
    });
  }

  async close(): Promise<void> {}

  async #call<T>(act: () => T): Promise<T> {
    const ms = this.faults.takesMs();
    await this.faults.held;
    if (ms > 0) await sleep(ms / 2);
    if (this.faults.isAway) throw new ServerAway('the server is away');
    const done = act();
    if (ms > 0) await sleep(ms / 2);
    return done;
  }
}

async function* each(chunks: SnapshotChunk[]): AsyncGenerator<SnapshotChunk> {
  yield* chunks;
}
