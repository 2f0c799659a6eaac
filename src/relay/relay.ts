import {
  AnswerFormatError,
  type AnswerRecord,
  type BrokenReason,
  CLOSE,
  decodeRecords,
  encodeRecords,
  limits,
} from '../protocol/index.ts';
import { type CallerSink, CallerStream, type Opening, type Reply } from './caller-stream.ts';
import { Tapes } from './tapes.ts';

/** An open event stream that is silent this long gets a comment, and another each time it lasts as long again, ms. */
const SILENCE_MS = 1000;
/** A stream nobody asks for is cancelled after this long, ms: its caller was gone before the answer came. */
const UNCLAIMED_MS = 30_000;
/** The same while the relay holds too much that nobody has asked for, ms. */
const UNCLAIMED_WHEN_CROWDED_MS = 5000;
/** How long a finished stream is remembered, so that late records of it are not taken for a new one, ms. */
const REMEMBER_MS = 60_000;
/** A comment: invisible to clients of server-sent events, but a write, and only a write shows a caller gone. */
const KEEP_ALIVE = new TextEncoder().encode(': keep-alive\n\n');

const WORKER_LOST: BrokenReason = {
  message: 'the worker disconnected and did not come back',
  code: 'worker_died',
  retryable: true,
};

/** The worker's answer socket. Sends never throw. */
export interface AnswerSocket {
  send(message: Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

export interface RelaySettings {
  reconnect_grace_seconds: number;
}

interface Entry {
  stream: CallerStream;
  /** Epoch ms of the last record or keep-alive. */
  touched_at: number;
  created_at: number;
  /** Epoch ms of the first byte; null before. */
  opened_at: number | null;
  sink: CallerSink | null;
  over_at: number | null;
  /** As last counted among those of all streams. */
  unclaimed_bytes: number;
}

/**
 * All answers of one worker, between its answer socket and its callers' responses. Nothing is stored: a
 * caller's response cannot outlive this process either.
 */
export class Relay {
  readonly #entries = new Map<number, Entry>();
  readonly #now: () => number;
  readonly #settings: RelaySettings;
  #socket: AnswerSocket | null = null;
  /** Epoch ms since when there is no socket, or nothing was heard on it. */
  #heardAt: number;
  #replies: Reply[] = [];
  readonly #tapes: Tapes;
  /** Held for callers that have not come, all streams together, bytes. */
  #unclaimedBytes = 0;

  constructor(now: () => number, settings: RelaySettings) {
    this.#now = now;
    this.#settings = settings;
    this.#heardAt = now();
    this.#tapes = new Tapes(now, (reply) => this.#replies.push(reply));
  }

  /** Whether `onTick` has anything to watch. */
  get isBusy(): boolean {
    return this.#entries.size + this.#tapes.size > 0;
  }

  /** The worker (re)connected: the newer socket counts, and every stream is told where it stands. */
  onSocket(socket: AnswerSocket): void {
    this.#socket?.close(CLOSE.superseded, 'a newer answer socket of this worker took over');
    this.#socket = socket;
    this.#heardAt = this.#now();
    for (const { stream } of this.#entries.values()) this.#replies.push(...stream.resumePoint());
    this.#replies.push(...this.#tapes.resumePoints());
    this.#flush();
  }

  onSocketClosed(socket: AnswerSocket): void {
    if (this.#socket !== socket) return;
    this.#socket = null;
    this.#heardAt = this.#now();
  }

  onMessage(socket: AnswerSocket, message: ArrayBuffer): void {
    if (this.#socket !== socket) return;
    this.#heardAt = this.#now();
    let records: AnswerRecord[];
    try {
      records = decodeRecords(message, (stream, problem) => this.#malformed(stream, problem));
    } catch (error) {
      if (!(error instanceof AnswerFormatError)) throw error;
      // What follows cannot be told apart any more: a new socket starts from known offsets.
      socket.close(1007, error.message);
      return;
    }
    for (const record of records) this.#onRecord(record);
    this.#flush();
  }

  /** Any sign of life that carries no record. */
  onPing(): void {
    this.#heardAt = this.#now();
  }

  /** A caller asks for a stream; it is told once how the answer opens. */
  open(id: number, listener: (opening: Opening) => void): void {
    this.#change(id, (stream) => stream.whenOpening(listener));
  }

  attach(id: number, sink: CallerSink): void {
    this.#entry(id).sink = sink;
    this.#change(id, (stream) => stream.attach(sink));
    this.#flush();
  }

  /**
   * A reader asks for the answer of a stored job from its beginning.
   * @returns stops waiting for the opening
   */
  openTape(id: number, listener: (opening: Opening) => void): () => void {
    // It broke before it had a head, and nobody knew that it was a tape.
    const broken = this.#entries.get(id)?.stream;
    if (!broken) return this.#tapes.open(id, listener);
    broken.whenOpening(listener);
    return () => {};
  }

  attachToTape(id: number, sink: CallerSink): void {
    this.#tapes.attach(id, sink);
  }

  readerReads(id: number, sink: CallerSink): void {
    this.#tapes.readerReads(id, sink);
  }

  readerGone(id: number, sink: CallerSink): void {
    this.#tapes.leave(id, sink);
  }

  callerReads(id: number): void {
    this.#entries.get(id)?.stream.callerReads();
    this.#flush();
  }

  callerGone(id: number): void {
    this.#cancel(id, 'caller_gone');
    this.#flush();
  }

  breakStream(id: number, reason: BrokenReason): void {
    this.#break(id, reason.code === 'deadline' ? this.#withFirstByte(id, reason) : reason);
    this.#flush();
  }

  /** Where the time went, as far as only this end knows. */
  #withFirstByte(id: number, reason: BrokenReason): BrokenReason {
    const { opened_at = null, created_at = 0 } = this.#entries.get(id) ?? {};
    if (opened_at === null) return reason;
    const seconds = ((opened_at - created_at) / 1000).toFixed(1);
    return { ...reason, message: `${reason.message}, first token after ${seconds} s` };
  }

  /** Once a second while busy. */
  onTick(): void {
    const now = this.#now();
    const silentFor = now - this.#heardAt;
    if (this.#socket && silentFor > 2 * limits.PING_SECONDS * 1000) {
      this.#socket.close(1001, 'nothing heard for two ping periods');
      this.#socket = null;
      this.#heardAt = now;
    }
    const workerLost = !this.#socket && silentFor >= this.#settings.reconnect_grace_seconds * 1000;
    for (const [id, entry] of this.#entries) this.#tend(id, entry, now, workerLost);
    if (workerLost) this.#tapes.breakAll(WORKER_LOST);
    this.#tapes.onTick(SILENCE_MS, KEEP_ALIVE);
    this.#flush();
  }

  #tend(id: number, entry: Entry, now: number, workerLost: boolean): void {
    const { stream } = entry;
    const unclaimedMs = this.#isCrowded ? UNCLAIMED_WHEN_CROWDED_MS : UNCLAIMED_MS;
    const isUnclaimed = !stream.hasCaller && now - entry.created_at >= unclaimedMs;
    if (stream.isOver) {
      entry.over_at ??= now;
      const isForgotten = now - entry.over_at >= REMEMBER_MS || (isUnclaimed && this.#isCrowded);
      if (isForgotten) this.#forget(id, entry);
      return;
    }
    if (workerLost) {
      this.#change(id, () => stream.onBroken(WORKER_LOST));
      return;
    }
    if (isUnclaimed) {
      this.#cancel(id, 'caller_gone');
      return;
    }
    if (!stream.isOpen || now - entry.touched_at < SILENCE_MS) return;
    if (stream.mayAddEvent) entry.sink?.write(KEEP_ALIVE);
    entry.touched_at = now;
  }

  #onRecord(record: AnswerRecord): void {
    if (this.#tapes.take(record)) return;
    switch (record.type) {
      case 'head':
        return this.#received(record.stream, (stream) => stream.onHead(record.head));
      case 'bytes':
        if (this.#isForgotten(record.stream, record.offset)) return;
        return this.#received(record.stream, (stream) => stream.onBytes(record.offset, record.data));
      case 'end':
        if (this.#isForgotten(record.stream, record.size)) return;
        return this.#received(record.stream, (stream) => stream.onEnd(record.size));
      case 'broken':
        return this.#received(record.stream, (stream) => stream.onBroken(record.reason));
      default:
      // The rest is ours to send, not the worker's.
    }
  }

  #malformed(id: number, problem: string): void {
    this.#break(id, { message: `the worker sent a ${problem}`, code: 'worker_error', retryable: false });
  }

  /** The middle of a stream this relay never saw begin (it restarted): its caller went with the old one. */
  #isForgotten(id: number, offset: number): boolean {
    if (offset === 0 || this.#entries.has(id)) return false;
    this.#replies.push({ type: 'cancel', stream: id, reason: 'caller_gone' });
    return true;
  }

  #cancel(id: number, reason: string): void {
    this.#change(id, (stream) => stream.cancel(reason));
  }

  #break(id: number, reason: BrokenReason): void {
    if (!this.#tapes.break(id, reason)) this.#change(id, (stream) => stream.onBroken(reason));
    this.#cancelAtWorker(id);
  }

  #cancelAtWorker(id: number): void {
    this.#replies.push({ type: 'cancel', stream: id, reason: 'superseded' });
  }

  /** Every change of a stream goes through here, which counts what it holds for a caller that has not come. */
  #change(id: number, change: (stream: CallerStream) => void): void {
    const entry = this.#entry(id);
    change(entry.stream);
    this.#count(entry, entry.stream.unclaimedBytes);
  }

  #count(entry: Entry, unclaimedBytes: number): void {
    this.#unclaimedBytes += unclaimedBytes - entry.unclaimed_bytes;
    entry.unclaimed_bytes = unclaimedBytes;
  }

  #received(id: number, change: (stream: CallerStream) => void): void {
    const entry = this.#entry(id);
    entry.touched_at = this.#now();
    this.#change(id, change);
    if (entry.stream.isOpen) entry.opened_at ??= entry.touched_at;
    if (!this.#isOverfull || entry.stream.hasCaller) return;
    this.#cancel(id, 'caller_gone');
    if (this.#isOverfull) this.#forget(id, entry);
  }

  get #isCrowded(): boolean {
    return this.#unclaimedBytes > limits.RELAY_UNCLAIMED_BYTES;
  }

  get #isOverfull(): boolean {
    return this.#unclaimedBytes > limits.RELAY_UNCLAIMED_MOST_BYTES;
  }

  #forget(id: number, entry: Entry): void {
    this.#count(entry, 0);
    this.#entries.delete(id);
  }

  #entry(id: number): Entry {
    const known = this.#entries.get(id);
    if (known) return known;
    const now = this.#now();
    const entry: Entry = {
      stream: new CallerStream(
        id,
        (reply) => this.#replies.push(reply),
        () => this.#isCrowded,
      ),
      touched_at: now,
      created_at: now,
      opened_at: null,
      sink: null,
      over_at: null,
      unclaimed_bytes: 0,
    };
    this.#entries.set(id, entry);
    return entry;
  }

  /** What was said in one go is one message. */
  #flush(): void {
    if (this.#replies.length === 0) return;
    const replies = this.#replies;
    this.#replies = [];
    this.#socket?.send(encodeRecords(replies));
  }
}
