import {
  type AnswerHead,
  type AnswerRecord,
  type BrokenReason,
  bounds,
  EventEnds,
  isEventStream,
  joinBytes,
  type Moves,
} from '../protocol/index.ts';
import { MovableAnswer } from './movable.ts';
import { type Reply, stop } from './replies.ts';
import { CANCELLED, type CallerSink, type Opening, type StreamPorts } from './stream-ports.ts';
import { TakenReports } from './taken-reports.ts';

/** The estimated memory of a stream beside its bytes and its head, bytes. */
const STREAM_BYTES = 1000;

const SENT_ON: BrokenReason = {
  message: 'the worker went on sending after it was told to pause',
  code: 'worker_error',
  retryable: false,
};

/**
 * Carries one answer from an attempt to its caller.
 *
 * States:
 * - `silent`   nothing has come for a caller. → `open`, `broken`, `cancelled`
 * - `open`     the caller has the head; bytes flow. → `ended`, `moving`, `broken`, `cancelled`
 * - `moving`   the attempt broke off, and the rest comes from another. → `ended`, `broken`, `cancelled`
 * - `ended`, `broken`, `cancelled` are final.
 *
 * The head alone does not open the stream: an engine that dies before its first byte can then be replaced by another
 * attempt without the caller noticing. The stream opens with the first byte, or with the end. While it is silent the
 * gateway keeps the caller's response alive (gateway/inference/answer.ts).
 */
export class CallerStream {
  readonly id: number;
  #state: 'silent' | 'open' | 'moving' | 'ended' | 'broken' | 'cancelled' = 'silent';
  #head: AnswerHead | null = null;
  /** The number of bytes received without a gap, at which the next record must start. */
  #received = 0;
  readonly #reports = new TakenReports();
  readonly #ends = new EventEnds();
  /** The bytes that came before the caller was attached. */
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #headBytes = 0;
  /** The number of bytes received since the worker was told to pause. */
  #sentWhilePaused = 0;
  #sink: CallerSink | null = null;
  /** Whether a caller has asked for the stream. */
  #isClaimed = false;
  /** Whether the caller has everything, or knows why there is nothing. */
  #isDelivered = false;
  #opening: Opening | null = null;
  /** The reason why the stream broke after it had opened. */
  #brokenBy: BrokenReason | null = null;
  #onOpening: ((opening: Opening) => void) | null = null;
  #paused = false;
  /** The stored ids of an answer that may be moved; null: it is not moved. */
  #movable: MovableAnswer | null = null;
  readonly #ports: StreamPorts;

  constructor(id: number, ports: StreamPorts) {
    this.id = id;
    this.#ports = ports;
  }

  /** The number of bytes held for a caller that has not come; 0 once it is there. */
  get unclaimedBytes(): number {
    return this.hasCaller ? 0 : STREAM_BYTES + this.#headBytes + this.#heldBytes;
  }

  /** Whether nothing more will come or go. */
  get isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'broken' || this.#state === 'cancelled';
  }

  get isEventStream(): boolean {
    return this.#head !== null && isEventStream(this.#head.headers);
  }

  /** Whether the relay may add an event of its own, since the caller's bytes end with a whole event. */
  get mayAddEvent(): boolean {
    return this.isEventStream && this.#ends.isBetween;
  }

  get isOpen(): boolean {
    return this.#state === 'open' || this.#state === 'moving';
  }

  get isMoving(): boolean {
    return this.#state === 'moving';
  }

  /** The number of ids stored of the answer. */
  get ids(): number {
    return this.#movable?.size ?? 0;
  }

  get hasCaller(): boolean {
    return this.#isClaimed;
  }

  /** The note that remains once the stream is over and its caller needs nothing more; null: it is still needed. */
  get remains(): { state: 'ended' | 'broken' | 'cancelled'; received: number } | null {
    const state = this.#state;
    if (state === 'silent' || state === 'open' || state === 'moving' || !this.#isDelivered) return null;
    return { state, received: this.#received };
  }

  /** Calls the listener once, when the stream opens. */
  whenOpening(listener: (opening: Opening) => void): void {
    this.#isClaimed = true;
    this.#onOpening = listener;
    if (this.#opening) this.#settleOpening(this.#opening);
    else if (this.isOver) this.#settleOpening({ ok: false, reason: CANCELLED });
  }

  /** Returns all of an answer that ended before its caller was attached, which needs no stream then, or else null. */
  takeWhole(): Uint8Array | null {
    if (this.#state !== 'ended' || this.#isDelivered) return null;
    this.#isDelivered = true;
    const pieces = this.#held;
    this.#held = [];
    this.#heldBytes = 0;
    return pieces.length === 1 ? pieces[0]! : joinBytes(pieces);
  }

  /** Connects the caller after a good opening: bytes that came meanwhile go first. */
  attach(sink: CallerSink): void {
    this.#isDelivered = true;
    this.#sink = sink;
    const held = this.#held;
    this.#held = [];
    this.#heldBytes = 0;
    let keepsUp = true;
    for (const data of held) keepsUp = sink.write(data);
    if (this.#state === 'ended') sink.end();
    else if (this.#brokenBy) this.#breakOff(this.#brokenBy, sink);
    else if (this.#state === 'cancelled') sink.abort(CANCELLED, this.mayAddEvent);
    else if (this.#paused && keepsUp) this.callerReads();
    else if (!keepsUp) this.#pause();
  }

  onHead(head: AnswerHead): void {
    if (this.#state !== 'silent' || this.#head) return;
    this.#head = head;
    // The head counts only until the caller is there.
    if (!this.#isClaimed) this.#headBytes = JSON.stringify(head).length;
  }

  onMoves(moves: Moves): void {
    if (this.#movable === null && !this.#ports.hasIdsEnough()) this.#movable = new MovableAnswer(moves);
  }

  onIds(record: Extract<AnswerRecord, { type: 'ids' }>): void {
    if (this.#state === 'moving' || this.#movable === null) return;
    if (!this.#movable.tell(record, this.#received) || this.#ports.hasIdsEnough()) this.#movable = null;
  }

  /** Takes bytes. Drops those that are here already; if some are missing, asks the worker to go back to them. */
  onBytes(offset: number, data: Uint8Array): void {
    if (this.isOver || this.isMoving) {
      if (this.#state !== 'ended') this.#ports.reply(this.#stop());
      return;
    }
    if (offset > this.#received || !this.#head) {
      this.#ports.reply({ type: 'taken', stream: this.id, offset: this.#received });
      return;
    }
    const fresh = data.subarray(this.#received - offset);
    if (fresh.byteLength === 0) return;
    if (this.#paused) this.#sentWhilePaused += fresh.byteLength;
    if (this.#sentWhilePaused > bounds.SENT_WHILE_PAUSED_BYTES) {
      this.onBroken(SENT_ON);
      this.#ports.reply(this.#stop());
      return;
    }
    this.#received += fresh.byteLength;
    this.#ends.see(fresh);
    this.#open();
    this.#give(fresh);
    this.#report();
  }

  onEnd(size: number): void {
    if (this.isOver || this.isMoving) return;
    if (size > this.#received) {
      this.#ports.reply({ type: 'taken', stream: this.id, offset: this.#received });
      return;
    }
    this.#open();
    this.#state = 'ended';
    // The worker has done its part: it only keeps a copy until the relay acknowledges.
    this.#ports.replyLater({ type: 'taken', stream: this.id, offset: this.#received });
    this.#sink?.end();
  }

  onBroken(reason: BrokenReason): void {
    if (this.isOver || this.isMoving) return;
    const silent = this.#state === 'silent';
    this.#state = 'broken';
    if (silent) {
      this.#settleOpening({ ok: false, reason });
      return;
    }
    this.#brokenBy = reason;
    if (this.#sink) this.#breakOff(reason, this.#sink);
  }

  /** Breaks off a stream whose caller has begun to read: the rest comes from another attempt, or not at all. */
  #breakOff(reason: BrokenReason, sink: CallerSink): void {
    const cut = this.mayAddEvent ? (this.#movable?.cutAt(this.#received) ?? null) : null;
    if (reason.retryable && cut !== null) {
      this.#state = 'moving';
      if (this.#ports.move(this.id, cut, reason)) {
        this.#movable = null;
        return;
      }
      this.#state = 'broken';
    } else if (reason.retryable) this.#ports.stays(this.id, this.#head?.stays ?? null, reason);
    sink.abort(reason, this.mayAddEvent);
  }

  /** Writes whole events of the continuation. @returns false if the caller reads slower than they come */
  goOn(events: Uint8Array): boolean {
    return this.isMoving && (this.#sink?.write(events) ?? false);
  }

  /** Ends the continuation. @param reason why it is not whole either; null: it is */
  movedTo(reason: BrokenReason | null): void {
    if (!this.isMoving) return;
    this.#state = reason === null ? 'ended' : 'broken';
    if (reason === null) this.#sink?.end();
    else this.#sink?.abort(reason, this.mayAddEvent);
  }

  #open(): void {
    if (this.#state !== 'silent') return;
    this.#state = 'open';
    this.#settleOpening({ ok: true, head: this.#head ?? { status: 200, headers: {} } });
  }

  /** Notes that the caller reads again after a pause. */
  callerReads(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#sentWhilePaused = 0;
    this.#ports.reply({ type: 'resume', stream: this.id });
  }

  /** Cancels the stream of a caller that is gone: the worker aborts the engine request. */
  cancel(): void {
    if (this.isOver) return;
    this.#state = 'cancelled';
    this.#held = [];
    this.#heldBytes = 0;
    this.#head = null;
    this.#headBytes = 0;
    this.#opening = null;
    if (this.#onOpening) this.#settleOpening({ ok: false, reason: CANCELLED });
    this.#ports.reply({ type: 'cancel', stream: this.id, reason: 'caller_gone' });
  }

  /** Returns where the stream goes on after the worker's socket came back, and whether it may go on now. */
  resumePoint(): Reply[] {
    // A stream that was given up while its worker was away goes on there until the worker hears of it.
    if (this.#state === 'cancelled' || this.#state === 'broken' || this.isMoving) return [this.#stop()];
    const taken: Reply = { type: 'taken', stream: this.id, offset: this.#received };
    // A new socket starts unpaused, and a `resume` may have been lost with the old one.
    return this.#paused ? [taken, { type: 'pause', stream: this.id }] : [taken];
  }

  #stop(): Reply {
    return stop(this.id, this.#state === 'cancelled' ? 'cancelled' : 'broken');
  }

  #give(data: Uint8Array): void {
    if (this.#sink) {
      this.#ports.passedOn();
      if (!this.#sink.write(data)) this.#pause();
      return;
    }
    // The piece is copied, since a view would keep its whole message in memory.
    this.#held.push(data.slice());
    this.#heldBytes += data.byteLength;
    if (this.#heldBytes >= bounds.RELAY_BUFFER_BYTES || this.#ports.isCrowded()) this.#pause();
  }

  #pause(): void {
    if (this.#paused || this.isOver) return;
    this.#paused = true;
    this.#ports.reply({ type: 'pause', stream: this.id });
  }

  /** Reports what was taken if it is due. */
  #report(): void {
    const due = this.#reports.due(this.#received);
    if (due === null) return;
    const taken: Reply = { type: 'taken', stream: this.id, offset: this.#received };
    if (due === 'at once') this.#ports.reply(taken);
    else this.#ports.replyLater(taken);
  }

  #settleOpening(opening: Opening): void {
    this.#opening = opening;
    const listener = this.#onOpening;
    this.#onOpening = null;
    if (listener === null) return;
    if (!opening.ok) this.#isDelivered = true;
    listener(opening);
  }
}
