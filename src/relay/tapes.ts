import { type AnswerRecord, type BrokenReason, limits } from '../protocol/index.ts';
import type { CallerSink, Opening } from './caller-stream.ts';
import type { Reply } from './replies.ts';
import { Tape } from './tape.ts';

/** How long a finished tape is kept, ms: by then the job is settled, and its result is the answer. */
const KEEP_MS = 10_000;

interface Kept {
  tape: Tape;
  over_at: number | null;
  /** Epoch ms of the last record or comment. */
  touched_at: number;
}

/** The answers of a worker's stored jobs that stream, by stream. */
export class Tapes {
  readonly #kept = new Map<number, Kept>();
  readonly #now: () => number;
  readonly #reply: (record: Reply) => void;
  readonly #forgotten: (id: number) => void;
  /** What all of them keep. */
  #bytes = 0;

  /** @param forgotten is told of a broken tape that is forgotten: its worker may go on sending */
  constructor(now: () => number, reply: (record: Reply) => void, forgotten: (id: number) => void) {
    this.#now = now;
    this.#reply = reply;
    this.#forgotten = forgotten;
  }

  get size(): number {
    return this.#kept.size;
  }

  /** @returns whether the record is one of a tape's; a head says so of a new one */
  take(record: AnswerRecord): boolean {
    if (record.type === 'head' && record.head.taped) this.#entry(record.stream);
    const kept = this.#kept.get(record.stream);
    if (!kept) return false;
    kept.touched_at = this.#now();
    const { tape } = kept;
    if (record.type === 'head') tape.onHead(record.head);
    else if (record.type === 'bytes') this.#change(tape, () => tape.onBytes(record.offset, record.data));
    else if (record.type === 'end') tape.onEnd(record.size);
    else if (record.type === 'broken') tape.onBroken(record.reason);
    if (record.type === 'bytes') this.#makeRoom();
    return true;
  }

  /** @returns whether there is such a tape */
  break(id: number, reason: BrokenReason): boolean {
    const kept = this.#kept.get(id);
    kept?.tape.onBroken(reason);
    return kept !== undefined;
  }

  breakAll(reason: BrokenReason): void {
    for (const { tape } of this.#kept.values()) tape.onBroken(reason);
  }

  /** A reader asks for a tape, which may not have begun. @returns stops waiting */
  open(id: number, listener: (opening: Opening) => void): () => void {
    const { tape } = this.#entry(id);
    const stop = tape.whenOpening(listener);
    return () => {
      stop();
      if (!tape.hasBegun && !tape.isRead) this.#forget(id, tape);
    };
  }

  attach(id: number, sink: CallerSink): void {
    this.#kept.get(id)?.tape.attach(sink);
  }

  readerReads(id: number, sink: CallerSink): void {
    this.#kept.get(id)?.tape.readerReads(sink);
  }

  leave(id: number, sink: CallerSink): void {
    this.#kept.get(id)?.tape.leave(sink);
  }

  resumePoints(): Reply[] {
    return [...this.#kept.values()].flatMap(({ tape }) => tape.resumePoint());
  }

  /** @param silenceMs after which a comment is written */
  onTick(silenceMs: number, comment: Uint8Array): void {
    const now = this.#now();
    for (const [id, kept] of this.#kept) {
      const { tape } = kept;
      if (tape.isOver) {
        // The clock may have been set back since.
        kept.over_at = Math.min(kept.over_at ?? now, now);
        if (!tape.isRead && now - kept.over_at >= KEEP_MS) this.#forget(id, tape);
      } else if (now - kept.touched_at >= silenceMs) {
        tape.keepAlive(comment);
        kept.touched_at = now;
      }
    }
  }

  /** Finished ones go first, then the oldest. */
  #makeRoom(): void {
    if (this.#bytes <= limits.TAPES_BYTES) return;
    const kept = [...this.#kept.values()].map(({ tape }) => tape);
    for (const tape of [...kept.filter(({ isOver }) => isOver), ...kept.filter(({ isOver }) => !isOver)]) {
      if (this.#bytes <= limits.TAPES_BYTES) return;
      this.#change(tape, () => tape.dropAll());
    }
  }

  /** Every change of what a tape keeps goes through here, or is its end. */
  #change(tape: Tape, change: () => void): void {
    this.#bytes -= tape.bytes;
    change();
    this.#bytes += tape.bytes;
  }

  #forget(id: number, tape: Tape): void {
    this.#bytes -= tape.bytes;
    this.#kept.delete(id);
    if (tape.isBroken) this.#forgotten(id);
  }

  #entry(id: number): Kept {
    const known = this.#kept.get(id);
    if (known) return known;
    const kept = { tape: new Tape(id, this.#reply), over_at: null, touched_at: this.#now() };
    this.#kept.set(id, kept);
    return kept;
  }
}
