import {
  type AnswerHead,
  type AnswerRecord,
  type BrokenReason,
  bounds,
  isEventStream,
  type Stage,
} from '../../protocol/index.ts';
import { AnswerLog } from './answer-log.ts';
import type { Events } from './events.ts';

/** The most bytes in one record, which goes out whole, and so may exceed the window. */
export const RECORD_BYTES = bounds.ANSWER_WINDOW_BYTES / 4;

/** A record that the relay has not taken yet. */
interface Kept {
  offset: number;
  data: Uint8Array;
  /** The ids that belong to the bytes up to the end of this record; null: the answer may not be moved. */
  reported: ReportedIds | null;
}

/**
 * One answer on its way to the relay, stored until the relay has it.
 *
 * - `open`     → `ended`, `broken`, `dropped`
 * - `ended`    → `complete` (the relay has every byte), `dropped`; a copy for readers also → `broken`
 * - `broken`, `complete` and `dropped` are final; nothing more of a dropped answer is sent.
 */
export type AnswerState = 'open' | 'ended' | 'broken' | 'complete' | 'dropped';

/** Ends a copy for readers at a relay that lacks its beginning. */
const BEGINNING_GONE: BrokenReason = {
  message:
    'the relay has restarted, and the beginning of the answer is not kept any more; its result will be whole',
  code: 'worker_error',
  retryable: false,
};

/** A record of ids without its stream and its place in the stream. */
type ReportedIds = { before: number; stage: Stage; ids: number[] };

export interface AnswerStreamEvents {
  /** Called when the stream has something to send. */
  changed(stream: AnswerStream): void;
  /** Called when the head of an event stream can be sent; it may wait a little for the first event. */
  begun(stream: AnswerStream): void;
  /** Called when the stream has more events to send, which may wait a little for those that follow. */
  more(stream: AnswerStream): void;
  /** Called when the relay wants no more of this answer. */
  cancelled(reason: string): void;
}

/** The log of an answer that goes to the relay. */
export class AnswerStream extends AnswerLog {
  readonly id: number;
  /**
   * Whether this is a copy for readers of a stored job's answer: it never waits for room, and its end is not the job's.
   */
  readonly isReplayed: boolean;
  readonly #events: AnswerStreamEvents;
  #state: AnswerState = 'open';
  #head: AnswerHead | null = null;
  #isEvents = false;
  /** The bytes written and not yet made into a record; each piece may end one. */
  #pieces: Uint8Array[] = [];
  #waitingBytes = 0;
  /** The records that the relay has not taken yet; those of a copy for readers from the beginning, up to a window. */
  #kept: Kept[] = [];
  /** The number of records of `#kept` that went out on the present connection. */
  #sent = 0;
  #headSent = false;
  #endSent = false;
  /** Whether the relay of the present connection knows this stream. It learns of a new stream from the caller too. */
  #isKnown = true;
  /** Whether records went out on more than one connection. */
  #wentOnAgain = false;
  #broken: BrokenReason | null = null;
  /** The offset after the last byte made into a record. */
  #recorded = 0;
  #written = 0;
  #taken = 0;
  #relayPaused = false;
  #wakeWriter: (() => void) | null = null;
  #movesSent = false;
  /** The ids of the bytes that were written and not yet made into a record. */
  #reported: ReportedIds | null = null;

  constructor(id: number, events: AnswerStreamEvents, isReplayed = false) {
    super();
    this.id = id;
    this.isReplayed = isReplayed;
    this.#events = events;
  }

  override get isOpen(): boolean {
    return this.#state === 'open';
  }

  get state(): AnswerState {
    return this.#state;
  }

  override get size(): number {
    return this.#written;
  }

  /** The number of bytes that can be sent and were not yet made into a record. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** True while the relay still lacks something of this answer. */
  get isPending(): boolean {
    if (this.#state === 'broken') return !this.#endSent;
    return this.#state === 'open' || this.#state === 'ended';
  }

  /**
   * Whether the relay may lack the end, although it has every byte: it says what it has at the beginning of a
   * connection, which may break before the end has come.
   */
  get mayLackEnd(): boolean {
    return this.#state === 'complete' && this.#wentOnAgain;
  }

  /** Returns the record of the end. */
  get endRecord(): AnswerRecord {
    return { type: 'end', stream: this.id, size: this.#recorded };
  }

  /** Whether the writer should wait: the relay asked for it, or has not taken what it was given. */
  override get isFull(): boolean {
    return this.#relayPaused || this.#written - this.#taken > bounds.ANSWER_WINDOW_BYTES;
  }

  /** Resolves when there is room again, or nobody wants more. */
  override async room(): Promise<void> {
    while (this.isFull && this.#state === 'open') {
      await new Promise<void>((resolve) => {
        this.#wakeWriter = resolve;
      });
    }
  }

  /** Sends the bytes that were held back now. */
  override hurry(): void {
    if (this.#waitingBytes > 0) this.#events.changed(this);
  }

  protected override idsCame(ids: readonly number[] | null, stage: Stage): void {
    if (ids === null) this.#reported = null;
    else if (this.#reported === null)
      this.#reported = { before: this.idsReported - ids.length, stage, ids: [...ids] };
    else {
      for (const id of ids) this.#reported.ids.push(id);
      this.#reported.stage = stage;
    }
  }

  override head(head: AnswerHead): void {
    if (this.#state !== 'open') return;
    this.#head = this.isReplayed ? { ...head, replayed: true } : head;
    this.#isEvents = isEventStream(head.headers);
    if (this.#isEvents) this.#events.begun(this);
    else this.#events.changed(this);
  }

  override writeEvents({ bytes }: Events): void {
    this.write(bytes);
  }

  /**
   * @param piece whole events if this is an event stream, since an answer that breaks off ends with what was written
   */
  write(piece: Uint8Array): void {
    if (this.#state !== 'open' || piece.byteLength === 0) return;
    this.#written += piece.byteLength;
    this.#queue(piece);
    if (this.#isEvents) this.#events.more(this);
    else this.#events.changed(this);
  }

  override end(): void {
    if (this.#state !== 'open') return;
    this.#become('ended');
    this.#events.changed(this);
  }

  /** Ends an answer that will never be finished. */
  break(reason: BrokenReason): void {
    if (this.#state !== 'open') return;
    this.#broken = reason;
    this.#become('broken');
    this.#events.changed(this);
  }

  /** Discards the answer: nothing more of it may be sent. */
  drop(): void {
    this.#pieces = [];
    this.#waitingBytes = 0;
    this.#kept = [];
    this.#become('dropped');
  }

  /** Appends the records that are to be sent now. */
  collect(records: AnswerRecord[]): void {
    if (this.#state === 'dropped' || this.#state === 'complete') return;
    const before = records.length;
    this.#record();
    if (this.#head && !this.#headSent) records.push({ type: 'head', stream: this.id, head: this.#head });
    this.#headSent = this.#head !== null;
    // An answer whose end is sent along cannot break off any more, so its ids are not needed.
    const mayBreakOff = this.#state !== 'ended';
    const moves = mayBreakOff && !this.#movesSent ? this.plan : null;
    if (moves) records.push({ type: 'moves', stream: this.id, moves });
    this.#movesSent = this.plan !== null;
    for (; this.#sent < this.#kept.length; this.#sent++) {
      const { offset, data, reported } = this.#kept[this.#sent]!;
      records.push({ type: 'bytes', stream: this.id, offset, data });
      if (reported === null || !mayBreakOff) continue;
      const { before, stage, ids } = reported;
      records.push({ type: 'ids', stream: this.id, offset: offset + data.byteLength, before, stage, ids });
    }
    // A relay that has restarted can cancel a stream without a caller only if the worker mentions the stream.
    if (!this.#isKnown && !this.isReplayed && this.#state === 'open' && records.length === before) {
      records.push({ type: 'bytes', stream: this.id, offset: this.#taken, data: new Uint8Array() });
    }
    this.#isKnown = true;
    if (this.#state === 'open' || this.#endSent) return;
    this.#endSent = true;
    if (this.#broken) records.push({ type: 'broken', stream: this.id, reason: this.#broken });
    else records.push(this.endRecord);
  }

  /** Prepares for a new connection to the relay: everything that the relay has not taken must be sent again. */
  reconnected(): void {
    this.#wentOnAgain = true;
    this.#sent = this.#kept.findIndex((kept) => endOf(kept) > this.#taken);
    if (this.#sent < 0) this.#sent = this.#kept.length;
    // A relay that has restarted recognises a copy for readers by its head, and asks for its beginning.
    this.#headSent = this.#taken > 0 && !this.isReplayed;
    this.#movesSent = this.#taken > 0;
    this.#endSent = false;
    this.#isKnown = false;
    // The relay's `resume` may have been lost with the old connection; if the caller is still slow, the relay pauses
    // again.
    this.resume();
  }

  /** Notes that the relay has everything before this offset. */
  taken(offset: number): void {
    if (offset > this.#recorded) return;
    if (offset < this.#taken) return this.isReplayed ? this.#goBack(offset) : undefined;
    this.#taken = offset;
    // The relay keeps a copy in memory alone: one that has restarted asks for the beginning again.
    if (!this.isReplayed || offset > bounds.ANSWER_WINDOW_BYTES) this.#dropTaken(offset);
    if (this.#state === 'ended' && this.#endSent && offset === this.#recorded) this.#become('complete');
    this.#wake();
  }

  /** Sends a copy for readers again from an offset that an earlier relay had taken. */
  #goBack(offset: number): void {
    if (this.#state === 'dropped' || this.#state === 'complete') return;
    if ((this.#kept[0]?.offset ?? this.#recorded) > offset) {
      this.#kept = [];
      this.#sent = 0;
      this.#broken = BEGINNING_GONE;
      this.#become('broken');
    } else {
      this.#taken = offset;
      this.#sent = this.#kept.findIndex((kept) => endOf(kept) > offset);
    }
    this.#endSent = false;
    this.#events.changed(this);
  }

  #dropTaken(offset: number): void {
    let first = this.#kept[0];
    while (first && endOf(first) <= offset) {
      this.#kept.shift();
      this.#sent = Math.max(0, this.#sent - 1);
      first = this.#kept[0];
    }
    if (first && first.offset < offset) {
      this.#kept[0] = { offset, data: first.data.subarray(offset - first.offset), reported: first.reported };
    }
  }

  pause(): void {
    this.#relayPaused = true;
  }

  resume(): void {
    this.#relayPaused = false;
    this.#wake();
  }

  cancel(reason: string): void {
    const wasOpen = this.#state === 'open';
    this.drop();
    if (wasOpen) this.#events.cancelled(reason);
  }

  #queue(piece: Uint8Array): void {
    if (piece.byteLength <= RECORD_BYTES) this.#pieces.push(piece);
    else
      for (let at = 0; at < piece.byteLength; at += RECORD_BYTES)
        this.#pieces.push(piece.subarray(at, at + RECORD_BYTES));
    this.#waitingBytes += piece.byteLength;
  }

  /** Merges what was written since the last call into one record, or into several if it is much. */
  #record(): void {
    if (this.#waitingBytes === 0) return;
    const pieces = this.#pieces;
    let first = 0;
    let bytes = 0;
    for (let at = 0; at < pieces.length; at++) {
      const { byteLength } = pieces[at]!;
      if (bytes > 0 && bytes + byteLength > RECORD_BYTES) {
        this.#keep(pieces, first, at, bytes);
        first = at;
        bytes = 0;
      }
      bytes += byteLength;
    }
    this.#keep(pieces, first, pieces.length, bytes);
    const last = this.#kept.at(-1);
    if (last && this.#reported && this.mayBeCut) {
      last.reported = this.#reported;
      this.#reported = null;
    }
    this.#pieces = [];
    this.#waitingBytes = 0;
  }

  /** Makes one record of some pieces. @param bytes the number of bytes in them */
  #keep(pieces: readonly Uint8Array[], from: number, to: number, bytes: number): void {
    const data = to - from === 1 ? pieces[from]! : Buffer.concat(pieces.slice(from, to), bytes);
    this.#kept.push({ offset: this.#recorded, data, reported: null });
    this.#recorded += bytes;
  }

  #become(state: AnswerState): void {
    this.#state = state;
    this.#wake();
  }

  #wake(): void {
    const wake = this.#wakeWriter;
    this.#wakeWriter = null;
    wake?.();
  }
}

function endOf(kept: Kept): number {
  return kept.offset + kept.data.byteLength;
}
