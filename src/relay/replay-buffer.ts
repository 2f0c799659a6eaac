import { type AnswerHead, type BrokenReason, bounds, EventEnds, isEventStream } from '../protocol/index.ts';
import { BEGINNING_DROPPED } from './calls.ts';
import type { Reply } from './replies.ts';
import type { CallerSink, Opening } from './stream-ports.ts';

const TOO_LATE: BrokenReason = {
  message: 'the beginning of the answer is not kept any more; the job goes on, and its result will be whole',
  code: BEGINNING_DROPPED,
  retryable: false,
};

const FELL_BEHIND: BrokenReason = {
  message:
    'it was read too slowly, and what comes next is not kept any more; the result of the job will be whole',
  code: BEGINNING_DROPPED,
  retryable: false,
};

const NEVER_BEGAN: BrokenReason = {
  message: 'the relay has restarted and lacks the beginning of the answer',
  code: 'worker_error',
  retryable: true,
};

/** A reader of a replay buffer, from its beginning. */
interface Reader {
  sink: CallerSink;
  /** The number of the next piece for this reader. */
  next: number;
  /** Whether the reader has taken everything that it was given. */
  wantsMore: boolean;
  /** Whether the bytes that the reader was given end with a whole event. */
  isBetween: boolean;
}

interface Piece {
  data: Uint8Array;
  /** Whether an event ends with this piece. */
  isBetween: boolean;
}

/**
 * The answer of one attempt at a stored job, kept from its beginning for readers. The job does not depend on it: no
 * reader slows the job down, cancels it, or has to exist.
 *
 * - `silent` nothing has come for a reader. → `open`, `broken`
 * - `open`   bytes flow. → `ended`, `broken`
 * - `ended`, `broken` are final.
 */
export class ReplayBuffer {
  readonly id: number;
  readonly #reply: (record: Reply) => void;
  #state: 'silent' | 'open' | 'ended' | 'broken' = 'silent';
  #head: AnswerHead | null = null;
  #brokenBy: BrokenReason | null = null;
  #pieces: Piece[] = [];
  /** The number of the first piece that is still kept. */
  #first = 0;
  #kept = 0;
  #received = 0;
  #reported = 0;
  readonly #ends = new EventEnds();
  readonly #readers = new Map<CallerSink, Reader>();
  readonly #openings = new Set<(opening: Opening) => void>();

  constructor(id: number, reply: (record: Reply) => void) {
    this.id = id;
    this.#reply = reply;
  }

  /** The number of bytes that the buffer holds. */
  get bytes(): number {
    return this.#kept;
  }

  get isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'broken';
  }

  get isBroken(): boolean {
    return this.#state === 'broken';
  }

  /** Whether a reader reads the buffer or waits for it to open. */
  get isRead(): boolean {
    return this.#readers.size > 0 || this.#openings.size > 0;
  }

  /** Whether a worker has begun the buffer; else only readers wait for it. */
  get hasBegun(): boolean {
    return this.#head !== null;
  }

  /** Calls the listener once, when the replay buffer opens. @returns stops waiting */
  whenOpening(listener: (opening: Opening) => void): () => void {
    if (this.#state === 'silent') this.#openings.add(listener);
    else listener(this.#opening());
    return () => this.#openings.delete(listener);
  }

  /** Connects a reader after a good opening. */
  attach(sink: CallerSink): void {
    const reader = { sink, next: 0, wantsMore: true, isBetween: true };
    this.#readers.set(sink, reader);
    this.#give(reader);
  }

  readerReads(sink: CallerSink): void {
    const reader = this.#readers.get(sink);
    if (!reader) return;
    reader.wantsMore = true;
    this.#give(reader);
  }

  leave(sink: CallerSink): void {
    this.#readers.delete(sink);
  }

  onHead(head: AnswerHead): void {
    this.#head ??= head;
  }

  /** Takes bytes. Drops those that are here already; if some are missing, asks the worker to go back. */
  onBytes(offset: number, data: Uint8Array): void {
    if (this.isOver) {
      if (this.#state === 'broken') this.#cancelAtWorker();
      return;
    }
    if (this.#head === null) {
      this.onBroken(NEVER_BEGAN);
      this.#cancelAtWorker();
      return;
    }
    if (offset > this.#received) return this.#report();
    const fresh = data.subarray(this.#received - offset);
    if (fresh.byteLength === 0) return;
    this.#received += fresh.byteLength;
    this.#ends.see(fresh);
    const isBetween = isEventStream(this.#head.headers) && this.#ends.isBetween;
    // The piece is copied, since a view would keep its whole message in memory.
    this.#pieces.push({ data: fresh.slice(), isBetween });
    this.#kept += fresh.byteLength;
    this.#open();
    for (const reader of this.#readers.values()) this.#give(reader);
    while (this.#kept > bounds.REPLAY_BUFFER_BYTES) this.#dropFirst();
    if (this.#received - this.#reported >= bounds.TAKEN_AT_ONCE_BYTES) this.#report();
  }

  onEnd(size: number): void {
    if (this.isOver) return;
    if (size > this.#received) return this.#report();
    this.#open();
    this.#state = 'ended';
    this.#report();
    for (const reader of this.#readers.values()) this.#give(reader);
  }

  /** Breaks the buffer: readers get what came before, then the reason. */
  onBroken(reason: BrokenReason): void {
    if (this.isOver) return;
    const isSilent = this.#state === 'silent';
    this.#state = 'broken';
    this.#brokenBy = reason;
    if (isSilent) this.#tellOpening();
    for (const reader of this.#readers.values()) this.#give(reader);
  }

  /** Writes a comment to readers that have all bytes so far; the write fails if a reader is gone. */
  keepAlive(): void {
    for (const reader of this.#readers.values()) {
      if (reader.isBetween && reader.wantsMore && reader.next === this.#end) reader.sink.keepAlive();
    }
  }

  /** Drops all pieces to make room: readers that have not read them get an error. */
  dropAll(): void {
    while (this.#pieces.length > 0) this.#dropFirst();
    for (const reader of this.#readers.values()) this.#give(reader);
  }

  /** Returns the place from which the stream goes on after the worker's socket came back. */
  resumePoint(): Reply[] {
    if (this.#state === 'ended' || !this.hasBegun) return [];
    if (this.#state === 'broken') return [{ type: 'cancel', stream: this.id, reason: 'superseded' }];
    return [{ type: 'taken', stream: this.id, offset: this.#received }];
  }

  /** The number of the piece that comes next. */
  get #end(): number {
    return this.#first + this.#pieces.length;
  }

  #give(reader: Reader): void {
    while (reader.wantsMore && reader.next >= this.#first && reader.next < this.#end) {
      const { data, isBetween } = this.#pieces[reader.next - this.#first]!;
      reader.next += 1;
      reader.isBetween = isBetween;
      // Each reader gets a copy: a stream may take over the buffer that it is given, and others read it too.
      reader.wantsMore = reader.sink.write(data.slice());
    }
    if (reader.next < this.#first) this.#finish(reader, FELL_BEHIND);
    else if (this.isOver && reader.next === this.#end) this.#finish(reader, this.#brokenBy);
  }

  #finish(reader: Reader, brokenBy: BrokenReason | null): void {
    this.#readers.delete(reader.sink);
    if (brokenBy === null) reader.sink.end();
    else reader.sink.abort(brokenBy, reader.isBetween && this.#isEventStream);
  }

  get #isEventStream(): boolean {
    return this.#head !== null && isEventStream(this.#head.headers);
  }

  #dropFirst(): void {
    const dropped = this.#pieces.shift();
    if (!dropped) return;
    this.#first += 1;
    this.#kept -= dropped.data.byteLength;
  }

  #open(): void {
    if (this.#state !== 'silent') return;
    this.#state = 'open';
    this.#tellOpening();
  }

  #tellOpening(): void {
    const listeners = [...this.#openings];
    this.#openings.clear();
    for (const listener of listeners) listener(this.#opening());
  }

  #opening(): Opening {
    if (this.#state === 'broken') return { ok: false, reason: this.#brokenBy! };
    if (this.#first > 0) return { ok: false, reason: TOO_LATE };
    return { ok: true, head: this.#head ?? { status: 200, headers: {} } };
  }

  /** Tells the worker to end the copy for readers, not the job. */
  #cancelAtWorker(): void {
    this.#reply({ type: 'cancel', stream: this.id, reason: 'superseded' });
  }

  #report(): void {
    this.#reported = this.#received;
    this.#reply({ type: 'taken', stream: this.id, offset: this.#received });
  }
}
