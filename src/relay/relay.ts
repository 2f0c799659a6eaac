import { AnswerFormatError, type AnswerRecord, type BrokenReason, decodeRecords } from '../protocol/index.ts';
import { AnswerLink } from './answer-link.ts';
import type { CallerStream } from './caller-stream.ts';
import type { AnswerSocket, Mover, RelaySettings } from './ports.ts';
import { ReplayBuffers } from './replay-buffers.ts';
import type { Reply } from './replies.ts';
import { CANCELLED, type CallerSink, type Opening } from './stream-ports.ts';
import { type Entry, Streams, withFirstByte } from './streams.ts';

/**
 * An open event stream that is silent for this many ms gets a comment, and another each time the silence lasts as long
 * again. Clients of server-sent events do not see a comment; its write fails if the caller is gone.
 */
const SILENCE_MS = 1000;
/** The relay cancels a stream that no caller asks for within this many ms: its caller left before the answer came. */
const UNCLAIMED_MS = 30_000;
/** The limit for unclaimed streams while the relay holds too many bytes that no caller has asked for, ms. */
const UNCLAIMED_WHEN_CROWDED_MS = 5000;
/** A finished stream that no caller asked for is kept for this many ms. */
const REMEMBER_MS = 60_000;

const WORKER_LOST: BrokenReason = {
  message: 'the worker disconnected and did not come back',
  code: 'worker_died',
  retryable: true,
};

/**
 * Passes all answers of one worker from its answer socket to its callers' responses. The relay stores nothing: a
 * caller's response cannot outlive this process either.
 */
export class Relay {
  readonly #streams: Streams;
  readonly #now: () => number;
  readonly #settings: RelaySettings;
  readonly #link: AnswerLink;
  /** The answers of stored jobs. */
  readonly replays: ReplayBuffers;
  #isEnding = false;
  /** Whether a caller was given bytes of the message that is being read. */
  #isPassedOn = false;

  /** @param mover null: no answer is moved */
  constructor(now: () => number, settings: RelaySettings, mover: Mover | null = null) {
    this.#now = now;
    this.#settings = settings;
    this.#link = new AnswerLink(now);
    const reply = (record: Reply) => this.#link.reply(record);
    this.#streams = new Streams(now, {
      reply,
      replyLater: (record) => this.#link.replyLater(record),
      passedOn: () => {
        this.#isPassedOn = true;
      },
      move: (id, cut, reason) =>
        !this.#isEnding && (mover?.move(id, cut, reason, this.#streams.get(id)?.asked) ?? false),
      stays: (id, why, reason) => mover?.stays(why, reason, this.#streams.get(id)?.asked),
    });
    this.replays = new ReplayBuffers(now, reply, (id) => this.#streams.rememberBroken(id));
  }

  /** Whether `onTick` has anything to watch. */
  get isBusy(): boolean {
    return this.#streams.size + this.replays.size > 0;
  }

  /** The number of answers on their way to callers, or kept for readers. */
  get carried(): number {
    return this.#streams.held + this.replays.size;
  }

  /** Takes the socket of a worker that (re)connected, and tells the worker where every stream stands. */
  onSocket(socket: AnswerSocket): void {
    this.#link.connected(socket, [...this.#streams.resumePoints(), ...this.replays.resumePoints()]);
  }

  onSocketClosed(socket: AnswerSocket): void {
    this.#link.closed(socket);
  }

  /** Takes a message. @returns whether bytes of it, not copies, are on their way to a caller */
  onMessage(socket: AnswerSocket, message: ArrayBuffer | Uint8Array): boolean {
    if (!this.#link.is(socket)) return false;
    this.#isPassedOn = false;
    this.#link.heard();
    let records: AnswerRecord[];
    try {
      records = decodeRecords(message, (stream, problem) => this.#malformed(stream, problem));
    } catch (error) {
      if (!(error instanceof AnswerFormatError)) throw error;
      // The records after the error cannot be told apart; a new socket starts from known offsets.
      socket.close(1007, error.message);
      return false;
    }
    for (const record of records) this.#onRecord(record);
    this.#flush();
    return this.#isPassedOn;
  }

  /** Notes a sign of life that carries no record. */
  onPing(): void {
    this.#link.heard();
  }

  /**
   * Claims a stream for a caller, and calls the listener once, when the answer opens.
   * @param asked is handed to the mover if the answer is to be moved
   */
  open(id: number, listener: (opening: Opening) => void, asked: unknown = null): void {
    if (this.#streams.isFinished(id)) return listener({ ok: false, reason: CANCELLED });
    this.#streams.change(id, (stream, entry) => {
      entry.asked = asked;
      stream.whenOpening(listener);
    });
  }

  /** Writes events of a moved answer's continuation. @returns false if the caller reads slower than they come */
  goOn(id: number, events: Uint8Array): boolean {
    let keepsUp = false;
    this.#streams.changeKnown(id, (stream, entry) => {
      entry.touched_at = this.#now();
      keepsUp = stream.goOn(events);
    });
    return keepsUp;
  }

  /** Ends the continuation of a moved answer. @param reason why it is not whole; null: it is */
  movedTo(id: number, reason: BrokenReason | null): void {
    this.#streams.changeKnown(id, (stream) => stream.movedTo(reason));
    this.#flush();
  }

  /** Returns an answer that has just opened, if all of it is here; null: attach to it. */
  takeWhole(id: number): Uint8Array | null {
    let whole: Uint8Array | null = null;
    this.#streams.changeKnown(id, (stream) => (whole = stream.takeWhole()));
    this.#flush();
    return whole;
  }

  attach(id: number, sink: CallerSink): void {
    this.#streams.changeKnown(id, (stream, entry) => {
      entry.sink = sink;
      stream.attach(sink);
    });
    this.#flush();
  }

  /**
   * Calls the listener when the answer of a stored job opens, for a reader that reads it from its beginning.
   * @returns stops waiting for the opening
   */
  openReplay(id: number, listener: (opening: Opening) => void): () => void {
    // The stream broke before its head said that it belongs to a replay buffer.
    const broken = this.#streams.get(id)?.stream;
    if (!broken) return this.replays.open(id, listener);
    broken.whenOpening(listener);
    return () => {};
  }

  callerReads(id: number): void {
    this.#streams.get(id)?.stream.callerReads();
    this.#flush();
  }

  callerGone(id: number): void {
    this.#cancel(id);
    this.#flush();
  }

  breakStream(id: number, reason: BrokenReason): void {
    this.#break(id, reason.code === 'deadline' ? withFirstByte(this.#streams.get(id), reason) : reason);
    this.#flush();
  }

  /** Breaks all answers before this relay ends, and tells every caller why. */
  breakAll(reason: BrokenReason): void {
    this.#isEnding = true;
    for (const [id, { stream }] of this.#streams.all()) {
      if (stream.isMoving) this.movedTo(id, reason);
      else this.#break(id, reason);
    }
    this.replays.breakAll(reason);
    this.#flush();
  }

  /** Looks after all streams; the host calls it once a second while the relay is busy. */
  onTick(): void {
    const now = this.#now();
    const workerLost = this.#link.onTick(this.#settings.reconnect_grace_seconds * 1000);
    for (const [id, entry] of this.#streams.all()) this.#tend(id, entry, now, workerLost);
    this.#streams.forgetOldFinished();
    if (workerLost) this.replays.breakAll(WORKER_LOST);
    this.replays.onTick(SILENCE_MS);
    this.#link.flush();
  }

  #tend(id: number, entry: Entry, now: number, workerLost: boolean): void {
    const { stream } = entry;
    const unclaimedMs = this.#streams.isCrowded ? UNCLAIMED_WHEN_CROWDED_MS : UNCLAIMED_MS;
    const isUnclaimed = !stream.hasCaller && now - entry.created_at >= unclaimedMs;
    if (stream.isOver) {
      // The clock may have been set back since the stream was over.
      entry.over_at = Math.min(entry.over_at ?? now, now);
      const isForgotten = now - entry.over_at >= REMEMBER_MS || (isUnclaimed && this.#streams.isCrowded);
      if (isForgotten) this.#streams.forget(id, entry);
      return;
    }
    if (workerLost && !stream.isMoving) {
      this.#streams.change(id, () => stream.onBroken(WORKER_LOST));
      return;
    }
    if (isUnclaimed) {
      this.#cancel(id);
      return;
    }
    if (!stream.isOpen || now - entry.touched_at < SILENCE_MS) return;
    if (stream.mayAddEvent) entry.sink?.keepAlive();
    entry.touched_at = now;
  }

  #onRecord(record: AnswerRecord): void {
    // A stream that was given up before its head said that it is for a replay buffer stays given up: its worker may not
    // end it.
    if (!this.#streams.has(record.stream) && this.replays.take(record)) return;
    switch (record.type) {
      case 'head':
        return this.#received(record.stream, (stream) => stream.onHead(record.head));
      case 'bytes':
        if (this.#isFinished(record.stream) || this.#isForgotten(record.stream, record.offset)) return;
        return this.#received(record.stream, (stream) => stream.onBytes(record.offset, record.data));
      case 'end':
        if (this.#isForgotten(record.stream, record.size)) return;
        return this.#received(record.stream, (stream) => stream.onEnd(record.size));
      case 'broken':
        return this.#received(record.stream, (stream) => stream.onBroken(record.reason));
      case 'moves':
        return this.#streams.changeKnown(record.stream, (stream) => stream.onMoves(record.moves));
      case 'ids':
        return this.#streams.changeKnown(record.stream, (stream) => stream.onIds(record));
      default:
      // Records of the other types come from the relay, never from the worker.
    }
  }

  /** Returns whether the stream is over, and tells the worker so. */
  #isFinished(id: number): boolean {
    const reply = this.#streams.replyToFinished(id);
    if (reply) this.#link.reply(reply);
    return this.#streams.isFinished(id);
  }

  #malformed(id: number, problem: string): void {
    this.#break(id, { message: `the worker sent a ${problem}`, code: 'worker_error', retryable: false });
  }

  /**
   * Returns whether bytes are the middle of a stream that began before a restart: its caller went with the old relay.
   */
  #isForgotten(id: number, offset: number): boolean {
    if (offset === 0 || this.#streams.has(id)) return false;
    this.#link.reply({ type: 'cancel', stream: id, reason: 'caller_gone' });
    return true;
  }

  #cancel(id: number): void {
    this.#streams.change(id, (stream) => stream.cancel());
  }

  #break(id: number, reason: BrokenReason): void {
    if (!this.replays.break(id, reason)) this.#streams.change(id, (stream) => stream.onBroken(reason));
    this.#cancelAtWorker(id);
  }

  #cancelAtWorker(id: number): void {
    this.#link.reply({ type: 'cancel', stream: id, reason: 'superseded' });
  }

  #received(id: number, change: (stream: CallerStream) => void): void {
    this.#streams.change(id, (stream, entry) => {
      entry.touched_at = this.#now();
      change(stream);
      if (stream.isOpen) entry.opened_at ??= entry.touched_at;
    });
    const entry = this.#streams.isOverfull ? this.#streams.get(id) : null;
    if (entry === null || entry.stream.hasCaller) return;
    this.#cancel(id);
    if (this.#streams.isOverfull) this.#streams.forget(id, entry);
  }

  #flush(): void {
    if (this.isBusy) this.#link.flushIfDue();
    else this.#link.flush();
  }
}
