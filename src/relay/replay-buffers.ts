import { type AnswerRecord, type BrokenReason, limits } from '../protocol/index.ts';
import { ReplayBuffer } from './replay-buffer.ts';
import type { Reply } from './replies.ts';
import type { CallerSink, Opening } from './stream-ports.ts';

/** How long a finished replay buffer is kept, ms: by then the job is settled, and its result is the answer. */
const KEEP_MS = 10_000;

interface Kept {
  replay: ReplayBuffer;
  over_at: number | null;
  /** Epoch ms of the last record or comment. */
  touched_at: number;
}

/** The answers of a worker's stored jobs that stream, by stream. */
export class ReplayBuffers {
  readonly #kept = new Map<number, Kept>();
  readonly #now: () => number;
  readonly #reply: (record: Reply) => void;
  readonly #forgotten: (id: number) => void;
  /** Bytes that all of them keep. */
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

  /** @returns whether the record is one of a replay buffer's; a head says so of a new one */
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

  /** @returns whether there is such a replay buffer */
  break(id: number, reason: BrokenReason): boolean {
    const kept = this.#kept.get(id);
    kept?.replay.onBroken(reason);
    return kept !== undefined;
  }

  breakAll(reason: BrokenReason): void {
    for (const { replay } of this.#kept.values()) replay.onBroken(reason);
  }

  /** A reader asks for a replay buffer, which may not have begun. @returns stops waiting */
  open(id: number, listener: (opening: Opening) => void): () => void {
    const { replay } = this.#entry(id);
    const stop = replay.whenOpening(listener);
    return () => {
      stop();
      // By now it may be forgotten, and another one kept under its id.
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

  /** @param silenceMs after which a comment is written */
  onTick(silenceMs: number): void {
    const now = this.#now();
    for (const [id, kept] of this.#kept) {
      const { replay } = kept;
      if (replay.isOver) {
        // The clock may have been set back since.
        kept.over_at = Math.min(kept.over_at ?? now, now);
        if (!replay.isRead && now - kept.over_at >= KEEP_MS) this.#forget(id, replay);
      } else if (now - kept.touched_at >= silenceMs) {
        replay.keepAlive();
        kept.touched_at = now;
      }
    }
  }

  /** Finished ones go first, then the oldest. */
  #makeRoom(): void {
    if (this.#bytes <= limits.REPLAY_BUFFERS_BYTES) return;
    const kept = [...this.#kept.values()].map(({ replay }) => replay);
    for (const replay of [...kept.filter(({ isOver }) => isOver), ...kept.filter(({ isOver }) => !isOver)]) {
      if (this.#bytes <= limits.REPLAY_BUFFERS_BYTES) return;
      this.#change(replay, () => replay.dropAll());
    }
  }

  /** Every change of what a replay buffer keeps goes through here, or is its end. */
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
