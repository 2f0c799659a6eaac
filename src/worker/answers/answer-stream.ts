import {
  type AnswerHead,
  type AnswerRecord,
  type BrokenReason,
  isEventStream,
  limits,
  type Moves,
  type Stage,
} from '../../protocol/index.ts';

/** Most bytes in one record, which goes out whole, and so beyond the window. */
export const RECORD_BYTES = limits.ANSWER_WINDOW_BYTES / 4;

interface Kept {
  offset: number;
  data: Uint8Array;
  /** What the bytes up to its end say, of an answer that may be moved. */
  told: Told | null;
}

/**
 * One answer on its way to the relay, kept until the relay has it.
 *
 * - `open`     → `ended`, `broken`, `dropped`
 * - `ended`    → `complete` (the relay has every byte), `dropped`
 * - `broken`, `complete` and `dropped` are final; of a dropped one nothing more is sent.
 */
export type AnswerState = 'open' | 'ended' | 'broken' | 'complete' | 'dropped';

/** A record of ids, but for the stream and where it stands. */
type Told = { before: number; stage: Stage; ids: number[] };

export interface AnswerStreamEvents {
  /** There is something to send. */
  changed(stream: AnswerStream): void;
  /** The head of an event stream can be sent; it may wait a little for the first event. */
  begun(stream: AnswerStream): void;
  /** There are more events to send, which may wait a little for those that follow. */
  more(stream: AnswerStream): void;
  /** The relay wants no more of it. */
  cancelled(reason: string): void;
}

export class AnswerStream {
  readonly id: number;
  /** A copy for readers of a stored job's answer: it waits for no room, and its end is not the job's. */
  readonly isReplayed: boolean;
  readonly #events: AnswerStreamEvents;
  #state: AnswerState = 'open';
  #head: AnswerHead | null = null;
  #isEvents = false;
  /** Written and not yet made into a record; each piece may end one. */
  #pieces: Uint8Array[] = [];
  #waitingBytes = 0;
  /** Made into records and not yet taken by the relay. */
  #kept: Kept[] = [];
  /** How many of `#kept` went out on the present connection. */
  #sent = 0;
  #headSent = false;
  #endSent = false;
  /** The relay of the present connection has heard of it. A new stream it hears of from the caller too. */
  #isKnown = true;
  #broken: BrokenReason | null = null;
  /** Offset after the last byte made into a record. */
  #recorded = 0;
  #written = 0;
  #taken = 0;
  #relayPaused = false;
  #wakeWriter: (() => void) | null = null;
  /** What the relay is told of an answer that may be moved; null: it may not. */
  #moves: Moves | null = null;
  #movesSent = false;
  /** Of what was written and not yet made into a record. */
  #told: Told | null = null;
  /** The answer may be cut off behind what was written; where not, the relay is told of no ids until it may be again. */
  #mayBeCut = true;
  /** Ids of prompt and tokens told so far. */
  #ids = 0;

  constructor(id: number, events: AnswerStreamEvents, isReplayed = false) {
    this.id = id;
    this.isReplayed = isReplayed;
    this.#events = events;
  }

  get state(): AnswerState {
    return this.#state;
  }

  /** Bytes written so far. */
  get size(): number {
    return this.#written;
  }

  /** Bytes that can be sent and were not yet made into a record. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** The relay still lacks something of it. */
  get isPending(): boolean {
    if (this.#state === 'broken') return !this.#endSent;
    return this.#state === 'open' || this.#state === 'ended';
  }

  /** The writer should wait: the relay asked for it, or has not taken what it was given. */
  get isFull(): boolean {
    return this.#relayPaused || this.#written - this.#taken > limits.ANSWER_WINDOW_BYTES;
  }

  /** Resolves when there is room again, or nothing more is wanted. */
  async room(): Promise<void> {
    while (this.isFull && this.#state === 'open') {
      await new Promise<void>((resolve) => {
        this.#wakeWriter = resolve;
      });
    }
  }

  /** Sends now what was held back. */
  hurry(): void {
    if (this.#waitingBytes > 0) this.#events.changed(this);
  }

  /** The relay could have the rest of it generated elsewhere. */
  get isMovable(): boolean {
    return this.#moves !== null && this.#mayBeCut && this.#state === 'open';
  }

  /** Tokens generated, and how many may come yet, of one that may be moved; null: that is not known. */
  get tokens(): { made: number; left: number | null } | null {
    if (this.#moves === null) return null;
    const { plan, prompt_tokens } = this.#moves;
    const made = this.#ids - prompt_tokens;
    return { made, left: plan.max_tokens === null ? null : Math.max(0, plan.max_tokens - made) };
  }

  /** It may be moved: before anything of it is written. */
  moves(moves: Moves, promptIds: readonly number[]): void {
    this.#moves = moves;
    this.#told = { before: 0, stage: 'running', ids: [...promptIds] };
    this.#ids = promptIds.length;
  }

  /** What the events say that are written next; null: it is not known any more, and the answer stays. */
  tell(ids: readonly number[] | null, stage: Stage, mayBeCut = true): void {
    if (this.#moves === null) return;
    this.#mayBeCut = mayBeCut;
    if (ids === null) {
      this.#moves = null;
      this.#told = null;
      return;
    }
    this.#told ??= { before: this.#ids, stage, ids: [] };
    this.#told.ids.push(...ids);
    this.#told.stage = stage;
    this.#ids += ids.length;
  }

  head(head: AnswerHead): void {
    if (this.#state !== 'open') return;
    this.#head = this.isReplayed ? { ...head, replayed: true } : head;
    this.#isEvents = isEventStream(head.headers);
    if (this.#isEvents) this.#events.begun(this);
    else this.#events.changed(this);
  }

  /** @param piece of an event stream whole events, since an answer that breaks off ends with what was written */
  write(piece: Uint8Array): void {
    if (this.#state !== 'open' || piece.byteLength === 0) return;
    this.#written += piece.byteLength;
    this.#queue(piece);
    if (this.#isEvents) this.#events.more(this);
    else this.#events.changed(this);
  }

  end(): void {
    if (this.#state !== 'open') return;
    this.#become('ended');
    this.#events.changed(this);
  }

  /** The answer will not be finished. */
  break(reason: BrokenReason): void {
    if (this.#state !== 'open') return;
    this.#broken = reason;
    this.#become('broken');
    this.#events.changed(this);
  }

  /** Nothing more of this answer may be sent. */
  drop(): void {
    this.#pieces = [];
    this.#waitingBytes = 0;
    this.#kept = [];
    this.#become('dropped');
  }

  /** Appends what is to be sent now. */
  collect(records: AnswerRecord[]): void {
    if (this.#state === 'dropped' || this.#state === 'complete') return;
    const before = records.length;
    this.#record();
    if (this.#head && !this.#headSent) records.push({ type: 'head', stream: this.id, head: this.#head });
    this.#headSent = this.#head !== null;
    // An answer whose end goes along cannot break off any more: nothing is to be moved.
    const mayBreakOff = this.#state !== 'ended';
    const moves = mayBreakOff && !this.#movesSent ? this.#moves : null;
    if (moves) records.push({ type: 'moves', stream: this.id, moves });
    this.#movesSent = this.#moves !== null;
    for (; this.#sent < this.#kept.length; this.#sent++) {
      const { offset, data, told } = this.#kept[this.#sent]!;
      records.push({ type: 'bytes', stream: this.id, offset, data });
      if (told && mayBreakOff)
        records.push({ type: 'ids', stream: this.id, offset: offset + data.byteLength, ...told });
    }
    // A relay that has restarted can cancel a stream without a caller only if the worker tells of it.
    if (!this.#isKnown && !this.isReplayed && this.#state === 'open' && records.length === before) {
      records.push({ type: 'bytes', stream: this.id, offset: this.#taken, data: new Uint8Array() });
    }
    this.#isKnown = true;
    if (this.#state === 'open' || this.#endSent) return;
    this.#endSent = true;
    if (this.#broken) records.push({ type: 'broken', stream: this.id, reason: this.#broken });
    else records.push({ type: 'end', stream: this.id, size: this.#recorded });
  }

  /** A new connection to the relay: everything it has not taken must be sent again. */
  reconnected(): void {
    this.#sent = 0;
    this.#headSent = this.#taken > 0;
    this.#movesSent = this.#taken > 0;
    this.#endSent = false;
    this.#isKnown = false;
    // The word to go on may have been lost with the old connection; if the caller is still slow, it comes again.
    this.resume();
  }

  /** The relay has everything before this offset. */
  taken(offset: number): void {
    if (offset < this.#taken || offset > this.#recorded) return;
    this.#taken = offset;
    let gone = 0;
    while (gone < this.#kept.length && endOf(this.#kept[gone]!) <= offset) gone++;
    this.#kept.splice(0, gone);
    this.#sent = Math.max(0, this.#sent - gone);
    const first = this.#kept[0];
    if (first && first.offset < offset) {
      this.#kept[0] = { offset, data: first.data.subarray(offset - first.offset), told: first.told };
    }
    if (this.#state === 'ended' && this.#endSent && offset === this.#recorded) this.#become('complete');
    this.#wake();
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

  /** Merges what was written since the last time: one record, or several where it is much. */
  #record(): void {
    if (this.#waitingBytes === 0) return;
    let group: Uint8Array[] = [];
    let bytes = 0;
    const close = () => {
      if (bytes === 0) return;
      const data = group.length === 1 ? group[0]! : Buffer.concat(group, bytes);
      this.#kept.push({ offset: this.#recorded, data, told: null });
      this.#recorded += bytes;
      group = [];
      bytes = 0;
    };
    for (const piece of this.#pieces) {
      if (bytes > 0 && bytes + piece.byteLength > RECORD_BYTES) close();
      group.push(piece);
      bytes += piece.byteLength;
    }
    close();
    const last = this.#kept.at(-1);
    if (last && this.#told && this.#mayBeCut) {
      last.told = this.#told;
      this.#told = null;
    }
    this.#pieces = [];
    this.#waitingBytes = 0;
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
