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

/** An event stream that is silent this long is opened, then kept alive with comments, ms. */
const SILENCE_MS = 2000;
/** A stream nobody asks for is cancelled after this long, ms: its caller was gone before the answer came. */
const UNCLAIMED_MS = 30_000;
/** How long a finished stream is remembered, so that late records of it are not taken for a new one, ms. */
const REMEMBER_MS = 60_000;
/** A comment: invisible to clients of server-sent events, but a write, and only a write shows a caller gone. */
const KEEP_ALIVE = new TextEncoder().encode(': keep-alive\n\n');

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
  sink: CallerSink | null;
  over_at: number | null;
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

  constructor(now: () => number, settings: RelaySettings) {
    this.#now = now;
    this.#settings = settings;
    this.#heardAt = now();
  }

  /** Whether `onTick` has anything to watch. */
  get isBusy(): boolean {
    return this.#entries.size > 0;
  }

  /** The worker (re)connected: the newer socket counts, and every stream is told where it stands. */
  onSocket(socket: AnswerSocket): void {
    this.#socket?.close(CLOSE.superseded, 'a newer answer socket of this worker took over');
    this.#socket = socket;
    this.#heardAt = this.#now();
    for (const { stream } of this.#entries.values()) this.#replies.push(...stream.resumePoint());
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
    this.#entry(id).stream.whenOpening(listener);
  }

  attach(id: number, sink: CallerSink): void {
    const entry = this.#entry(id);
    entry.sink = sink;
    entry.stream.attach(sink);
    this.#flush();
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
    this.#entry(id).stream.onBroken(reason);
    this.#cancelAtWorker(id);
    this.#flush();
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
    this.#flush();
  }

  #tend(id: number, entry: Entry, now: number, workerLost: boolean): void {
    const { stream } = entry;
    if (stream.isOver) {
      entry.over_at ??= now;
      if (now - entry.over_at >= REMEMBER_MS) this.#entries.delete(id);
      return;
    }
    if (workerLost) {
      stream.onBroken({
        message: 'the worker disconnected and did not come back',
        code: 'worker_died',
        retryable: true,
      });
      return;
    }
    if (!stream.hasCaller && now - entry.created_at >= UNCLAIMED_MS) {
      stream.cancel('caller_gone');
      return;
    }
    if (!stream.isEventStream || now - entry.touched_at < SILENCE_MS) return;
    if (stream.mayOpen) stream.openNow();
    else if (stream.isOpen && stream.mayAddEvent) entry.sink?.write(KEEP_ALIVE);
    entry.touched_at = now;
  }

  #onRecord(record: AnswerRecord): void {
    switch (record.type) {
      case 'head':
        this.#touched(record.stream).onHead(record.head);
        return;
      case 'bytes':
        if (this.#isForgotten(record.stream, record.offset)) return;
        this.#touched(record.stream).onBytes(record.offset, record.data);
        return;
      case 'end':
        if (this.#isForgotten(record.stream, record.size)) return;
        this.#touched(record.stream).onEnd(record.size);
        return;
      case 'broken':
        this.#touched(record.stream).onBroken(record.reason);
        return;
      default:
      // The rest is ours to send, not the worker's.
    }
  }

  #malformed(stream: number, problem: string): void {
    this.#entry(stream).stream.onBroken({
      message: `the worker sent a ${problem}`,
      code: 'worker_error',
      retryable: false,
    });
    this.#cancelAtWorker(stream);
  }

  /** The middle of a stream this relay never saw begin (it restarted): its caller went with the old one. */
  #isForgotten(id: number, offset: number): boolean {
    if (offset === 0 || this.#entries.has(id)) return false;
    this.#replies.push({ type: 'cancel', stream: id, reason: 'caller_gone' });
    return true;
  }

  #cancel(id: number, reason: string): void {
    const entry = this.#entries.get(id);
    if (entry) entry.stream.cancel(reason);
    else this.#entry(id).stream.cancel(reason);
  }

  #cancelAtWorker(id: number): void {
    this.#replies.push({ type: 'cancel', stream: id, reason: 'superseded' });
  }

  #touched(id: number): CallerStream {
    const entry = this.#entry(id);
    entry.touched_at = this.#now();
    return entry.stream;
  }

  #entry(id: number): Entry {
    const known = this.#entries.get(id);
    if (known) return known;
    const now = this.#now();
    const entry: Entry = {
      stream: new CallerStream(id, (reply) => this.#replies.push(reply)),
      touched_at: now,
      created_at: now,
      sink: null,
      over_at: null,
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
