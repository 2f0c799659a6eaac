import { type AnswerRecord, type BrokenReason, bounds } from '../protocol/index.ts';
import { ReplayBuffer } from './replay-buffer.ts';
import type { Reply } from './replies.ts';
import type { CallerSink, Opening } from './stream-ports.ts';

/** A finished replay buffer is kept for this many ms: by then the job is settled, and readers get its result. */
const KEEP_MS = 10_000;

interface Kept {
  replay: ReplayBuffer;
  over_at: number | null;
  /** The time of the last record or comment, epoch ms. */
  touched_at: number;
}

/** The replay buffers of a worker's stored jobs that stream, by stream. */
export class ReplayBuffers {
  readonly #kept = new Map<number, Kept>();
  readonly #now: () => number;
  readonly #reply: (record: Reply) => void;
  readonly #forgotten: (id: number) => void;
  /** The bytes that all replay buffers hold. */
  #bytes = 0;

  /** @param forgotten is called for a broken replay buffer that is forgotten: its worker may go on sending */
  constructor(now: () => number, reply: (record: Reply) => void, forgotten: (id: number) => void) {
    this.#now = now;
    this.#reply = reply;
    this.#forgotten = forgotten;
  }

  get size(): number {
    return this.#kept.size;
  }

  /** Takes a record. @returns whether it belongs to a replay buffer; for a new one its head says so */
  take(record: AnswerRecord): boolean {
    if (record.type === 'head' && record.head.replayed) this.#entry(record.stream);
    const kept = this.#kept.get(record.stream);
    if (!kept) return false;
    kept.touched_at = this.#now();
    const { replay } = kept;
    if (record.type === 'head') replay.onHead(record.head);
    else if (record.type === 'bytes') this.#change(replay, () => replay.onBytes(record.offset, record.data));
    else if (record.type === 'end') replay.onEnd(record.size);
    else if (record.type === 'broken') replay.onBroken(record.reason);
    if (record.type === 'bytes') this.#makeRoom();
    return true;
  }

  /** Breaks a replay buffer. @returns whether there is one with this id */
  break(id: number, reason: BrokenReason): boolean {
    const kept = this.#kept.get(id);
    kept?.replay.onBroken(reason);
    return kept !== undefined;
  }

  /** Breaks all buffers. One of which nothing has come is forgotten: its worker may still come and begin it. */
  breakAll(reason: BrokenReason): void {
    for (const [id, { replay }] of this.#kept) {
      const hasBegun = replay.hasBegun;
      replay.onBroken(reason);
      if (!hasBegun) this.#kept.delete(id);
    }
  }

  /** Calls the listener when a replay buffer opens, which may not have begun. @returns stops waiting */
  open(id: number, listener: (opening: Opening) => void): () => void {
    const { replay } = this.#entry(id);
    const stop = replay.whenOpening(listener);
    return () => {
      stop();
      // By now this buffer may be forgotten, and another one kept under its id.
      const isKept = this.#kept.get(id)?.replay === replay;
      if (isKept && !replay.hasBegun && !replay.isRead) this.#forget(id, replay);
    };
  }

  attach(id: number, sink: CallerSink): void {
    this.#kept.get(id)?.replay.attach(sink);
  }

  readerReads(id: number, sink: CallerSink): void {
    this.#kept.get(id)?.replay.readerReads(sink);
  }

  leave(id: number, sink: CallerSink): void {
    this.#kept.get(id)?.replay.leave(sink);
  }

  resumePoints(): Reply[] {
    return [...this.#kept.values()].flatMap(({ replay }) => replay.resumePoint());
  }

  /** Writes comments and forgets old buffers. @param silenceMs a comment is written after this silence */
  onTick(silenceMs: number): void {
    const now = this.#now();
    for (const [id, kept] of this.#kept) {
      const { replay } = kept;
      if (replay.isOver) {
        // The clock may have been set back since the buffer was over.
        kept.over_at = Math.min(kept.over_at ?? now, now);
        if (!replay.isRead && now - kept.over_at >= KEEP_MS) this.#forget(id, replay);
      } else if (now - kept.touched_at >= silenceMs) {
        replay.keepAlive();
        kept.touched_at = now;
      }
    }
  }

  /** Drops replay buffers to make room: finished ones first, then the oldest. */
  #makeRoom(): void {
    if (this.#bytes <= bounds.REPLAY_BUFFERS_BYTES) return;
    const kept = [...this.#kept.values()].map(({ replay }) => replay);
    for (const replay of [...kept.filter(({ isOver }) => isOver), ...kept.filter(({ isOver }) => !isOver)]) {
      if (this.#bytes <= bounds.REPLAY_BUFFERS_BYTES) return;
      this.#change(replay, () => replay.dropAll());
    }
  }

  /** Changes the content of a replay buffer, and counts its bytes anew. */
  #change(replay: ReplayBuffer, change: () => void): void {
    this.#bytes -= replay.bytes;
    change();
    this.#bytes += replay.bytes;
  }

  #forget(id: number, replay: ReplayBuffer): void {
    this.#bytes -= replay.bytes;
    this.#kept.delete(id);
    if (replay.isBroken) this.#forgotten(id);
  }

  #entry(id: number): Kept {
    const known = this.#kept.get(id);
    if (known) return known;
    const kept = { replay: new ReplayBuffer(id, this.#reply), over_at: null, touched_at: this.#now() };
    this.#kept.set(id, kept);
    return kept;
  }
}
