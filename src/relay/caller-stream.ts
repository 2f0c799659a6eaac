import {
  type AnswerHead,
  type AnswerRecord,
  type BrokenReason,
  EventEnds,
  isEventStream,
  limits,
} from '../protocol/index.ts';

/** Where a stream's bytes go: the caller's response, behind whatever carries it. */
export interface CallerSink {
  /** Returns false when the caller reads slower than the engine writes. */
  write(data: Uint8Array): boolean;
  end(): void;
  /**
   * Ends the response so that the caller sees it is not whole.
   * @param mayAddEvent it is an event stream, and none of its events is cut
   */
  abort(reason: BrokenReason, mayAddEvent: boolean): void;
}

/** How a stream opens for its caller. */
export type Opening = { ok: true; head: AnswerHead } | { ok: false; reason: BrokenReason };

/** The answer to a request for a cancelled stream: its caller is not the one that left. */
const CANCELLED: BrokenReason = { message: 'the request was cancelled', code: 'cancelled', retryable: false };

/** What a stream takes beside its bytes and its head, bytes: an estimate. */
const STREAM_BYTES = 1000;

const SENT_ON: BrokenReason = {
  message: 'the worker went on sending after it was told to pause',
  code: 'worker_error',
  retryable: false,
};

/** Records the relay sends back to the worker. */
export type Reply = Extract<AnswerRecord, { type: 'pause' | 'resume' | 'taken' | 'cancel' }>;

/**
 * One answer on its way from an attempt to its caller.
 *
 * States:
 * - `silent`   nothing came that a caller could be given. → `open`, `broken`, `cancelled`
 * - `open`     the caller has the head; bytes flow. → `ended`, `broken`, `cancelled`
 * - `ended`, `broken`, `cancelled` are final.
 *
 * The head alone does not open it: an engine that dies before its first byte can then be replaced by another
 * attempt without the caller noticing. It opens with the first byte, or with the end. While it is silent the gateway
 * keeps the caller's response alive (gateway/inference/early-response.ts).
 */
export class CallerStream {
  readonly id: number;
  #state: 'silent' | 'open' | 'ended' | 'broken' | 'cancelled' = 'silent';
  #head: AnswerHead | null = null;
  /** Bytes received without a hole; the next record must start here. */
  #received = 0;
  #reported = 0;
  readonly #ends = new EventEnds();
  /** Bytes that came before the caller was attached. */
  #tape: Uint8Array[] = [];
  #taped = 0;
  #headBytes = 0;
  /** Bytes received since the worker was told to pause. */
  #sentWhilePaused = 0;
  #sink: CallerSink | null = null;
  #opening: Opening | null = null;
  /** Why it broke after it had opened. */
  #brokenBy: BrokenReason | null = null;
  #onOpening: ((opening: Opening) => void) | null = null;
  #paused = false;
  readonly #reply: (record: Reply) => void;
  readonly #isCrowded: () => boolean;

  /** @param isCrowded the relay holds too much that no caller has asked for */
  constructor(id: number, reply: (record: Reply) => void, isCrowded: () => boolean) {
    this.id = id;
    this.#reply = reply;
    this.#isCrowded = isCrowded;
  }

  /** Bytes held for a caller that has not come; 0 once it is there. */
  get unclaimedBytes(): number {
    return this.hasCaller ? 0 : STREAM_BYTES + this.#headBytes + this.#taped;
  }

  /** Nothing more will come or go. */
  get isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'broken' || this.#state === 'cancelled';
  }

  get isEventStream(): boolean {
    return this.#head !== null && isEventStream(this.#head.headers);
  }

  /** An event of the relay's own may follow what the caller was given: it would not fall into the middle of another. */
  get mayAddEvent(): boolean {
    return this.isEventStream && this.#ends.isBetween;
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  get hasCaller(): boolean {
    return this.#sink !== null || this.#onOpening !== null;
  }

  /** Hears once how the stream opens. */
  whenOpening(listener: (opening: Opening) => void): void {
    if (this.#opening) listener(this.#opening);
    else if (this.isOver) listener({ ok: false, reason: CANCELLED });
    else this.#onOpening = listener;
  }

  /** Connects the caller after a good opening: what came meanwhile goes first. */
  attach(sink: CallerSink): void {
    this.#sink = sink;
    const tape = this.#tape;
    this.#tape = [];
    this.#taped = 0;
    let keepsUp = true;
    for (const data of tape) keepsUp = sink.write(data);
    if (this.#state === 'ended') sink.end();
    else if (this.#brokenBy) sink.abort(this.#brokenBy, this.mayAddEvent);
    else if (this.#state === 'cancelled') sink.abort(CANCELLED, this.mayAddEvent);
    else if (this.#paused && keepsUp) this.callerReads();
    else if (!keepsUp) this.#pause();
  }

  onHead(head: AnswerHead): void {
    if (this.#state !== 'silent' || this.#head) return;
    this.#head = head;
    this.#headBytes = JSON.stringify(head).length;
  }

  /** Drops what is already here; a hole asks the worker to go back to where the stream stands. */
  onBytes(offset: number, data: Uint8Array): void {
    if (this.isOver) {
      if (this.#state !== 'ended') this.#reply(this.#stop());
      return;
    }
    if (offset > this.#received || !this.#head) {
      this.#reply({ type: 'taken', stream: this.id, offset: this.#received });
      return;
    }
    const fresh = data.subarray(this.#received - offset);
    if (fresh.byteLength === 0) return;
    if (this.#paused) this.#sentWhilePaused += fresh.byteLength;
    if (this.#sentWhilePaused > limits.SENT_WHILE_PAUSED_BYTES) {
      this.onBroken(SENT_ON);
      this.#reply(this.#stop());
      return;
    }
    this.#received += fresh.byteLength;
    this.#ends.see(fresh);
    this.#open();
    this.#give(fresh);
    if (this.#received - this.#reported >= limits.TAKEN_EVERY_BYTES) this.#report();
  }

  onEnd(size: number): void {
    if (this.isOver) return;
    if (size > this.#received) {
      this.#reply({ type: 'taken', stream: this.id, offset: this.#received });
      return;
    }
    this.#open();
    this.#state = 'ended';
    this.#report();
    this.#sink?.end();
  }

  onBroken(reason: BrokenReason): void {
    if (this.isOver) return;
    const silent = this.#state === 'silent';
    this.#state = 'broken';
    if (silent) {
      this.#settleOpening({ ok: false, reason });
      return;
    }
    this.#brokenBy = reason;
    this.#sink?.abort(reason, this.mayAddEvent);
  }

  #open(): void {
    if (this.#state !== 'silent') return;
    this.#state = 'open';
    this.#settleOpening({ ok: true, head: this.#head ?? { status: 200, headers: {} } });
  }

  /** The caller reads again after a pause. */
  callerReads(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#sentWhilePaused = 0;
    this.#reply({ type: 'resume', stream: this.id });
  }

  /** The caller is gone (or its attempt is superseded): the worker aborts the engine request. */
  cancel(reason: string): void {
    if (this.isOver) return;
    this.#state = 'cancelled';
    this.#tape = [];
    this.#taped = 0;
    if (!this.hasCaller) {
      this.#head = null;
      this.#headBytes = 0;
      this.#opening = null;
    }
    this.#reply({ type: 'cancel', stream: this.id, reason });
  }

  /** After the worker's socket came back: from here the stream goes on, and whether it may go on now. */
  resumePoint(): Reply[] {
    // One that was given up while its worker was away goes on there until it is told.
    if (this.#state === 'cancelled' || this.#state === 'broken') return [this.#stop()];
    const taken: Reply = { type: 'taken', stream: this.id, offset: this.#received };
    // A new socket starts unpaused, and a `resume` may have been lost with the old one.
    return this.#paused ? [taken, { type: 'pause', stream: this.id }] : [taken];
  }

  #stop(): Reply {
    const reason = this.#state === 'cancelled' ? 'caller_gone' : 'superseded';
    return { type: 'cancel', stream: this.id, reason };
  }

  #give(data: Uint8Array): void {
    if (this.#sink) {
      if (!this.#sink.write(data)) this.#pause();
      return;
    }
    // A copy: the piece itself would keep its whole message in memory.
    this.#tape.push(data.slice());
    this.#taped += data.byteLength;
    if (this.#taped >= limits.RELAY_BUFFER_BYTES || this.#isCrowded()) this.#pause();
  }

  #pause(): void {
    if (this.#paused || this.isOver) return;
    this.#paused = true;
    this.#reply({ type: 'pause', stream: this.id });
  }

  #report(): void {
    this.#reported = this.#received;
    this.#reply({ type: 'taken', stream: this.id, offset: this.#received });
  }

  #settleOpening(opening: Opening): void {
    this.#opening = opening;
    const listener = this.#onOpening;
    this.#onOpening = null;
    listener?.(opening);
  }
}
