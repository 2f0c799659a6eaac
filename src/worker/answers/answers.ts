import {
  AnswerFormatError,
  type AnswerRecord,
  type BrokenReason,
  decodeRecords,
  encodeRecords,
  recordBytes,
} from '../../protocol/index.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';
import { ReconnectingSocket } from '../session/reconnecting-socket.ts';
import { AnswerStream } from './answer-stream.ts';
import { PieceJoiner, type StreamInterval } from './piece-joiner.ts';

/** An answer is forgotten if the relay has not fetched its end within this time, ms. */
const KEEP_FINISHED_MS = 60_000;
/** A job may arrive this much later than the relay's first record of its stream, ms: they come on different sockets. */
const UNKNOWN_FOR_MS = 5000;
/** Records are sent in one message up to this many bytes. */
const MESSAGE_BYTES = 1024 * 1024;

const NOT_HERE: BrokenReason = {
  message: 'the worker was restarted and knows nothing of the request',
  code: 'worker_died',
  retryable: true,
};

export interface AnswersSettings {
  token: string | undefined;
  streamInterval: StreamInterval;
}

export interface AnswersEvents {
  /** Called when an answer has been sent or forgotten. */
  changed(): void;
}

/**
 * The answer socket, which carries the bytes of all answers to the relay, one message a tick for all of them together.
 * A connection that breaks costs nothing but time: each stream goes on from what the relay has.
 */
export class Answers {
  readonly #ports: Ports;
  readonly #settings: AnswersSettings;
  readonly #events: AnswersEvents;
  readonly #streams = new Map<number, AnswerStream>();
  /** Decides which streams wait a little for the events that follow. */
  readonly #joiner: PieceJoiner;
  /** The streams with something to send. */
  readonly #waiting = new Set<AnswerStream>();
  readonly #expiry = new Map<AnswerStream, Timer>();
  /** The streams that the relay waits for and this worker does not know. */
  readonly #unknown = new Set<number>();
  readonly #streamEvents = {
    changed: (stream: AnswerStream) => this.#plan(stream),
    begun: (stream: AnswerStream) => this.#joiner.holdHead(stream),
    more: (stream: AnswerStream) => {
      if (!this.#joiner.holds(stream)) this.#plan(stream);
    },
  };
  #unknownTimer: Timer = null;
  #socket: ReconnectingSocket | null = null;
  #url: string | null = null;
  #flushPlanned = false;

  constructor(ports: Ports, settings: AnswersSettings, events: AnswersEvents) {
    this.#ports = ports;
    this.#settings = settings;
    this.#events = events;
    this.#joiner = new PieceJoiner(ports.clock, settings.streamInterval, (due) => {
      for (const stream of due) this.#waiting.add(stream);
      this.#flush();
    });
  }

  /** Whether the relay has everything that this worker has for it. */
  get isIdle(): boolean {
    return ![...this.#streams.values()].some((stream) => stream.isPending);
  }

  /** Dials the relay and keeps the connection warm. The address may change when the control socket reconnects. */
  connect(url: string): void {
    if (this.#socket && this.#url === url && this.#socket.state !== 'closed') return;
    void this.#socket?.close();
    this.#url = url;
    const socket = new ReconnectingSocket(this.#ports, 'answer', {
      opened: () => {
        socket.proven();
        socket.useTextPings();
        this.#reconnected();
      },
      text: () => {},
      binary: (data) => this.#receive(data),
      closed: () => 'redial',
    });
    this.#socket = socket;
    socket.open({ url, token: this.#settings.token });
  }

  /** Opens the answer of a stored job for readers; if the relay wants no more of it, the job goes on. */
  openReplay(streamId: number): AnswerStream {
    return this.#open(streamId, () => {}, true);
  }

  /**
   * Opens the answer of a job.
   * @param cancelled called when the relay wants no more: the caller is gone, or another attempt answers
   */
  open(streamId: number, cancelled: (reason: string) => void): AnswerStream {
    return this.#open(streamId, cancelled, false);
  }

  #open(streamId: number, cancelled: (reason: string) => void, isReplayed: boolean): AnswerStream {
    const stream = new AnswerStream(streamId, { ...this.#streamEvents, cancelled }, isReplayed);
    this.#unknown.delete(streamId);
    this.#streams.get(streamId)?.drop();
    this.#streams.set(streamId, stream);
    return stream;
  }

  /** Tells the caller that waits for this stream that nothing will come on it. */
  decline(streamId: number, reason: BrokenReason): void {
    const stream = this.open(streamId, () => {});
    stream.break(reason);
    this.finished(stream);
  }

  /** Marks that the writer has written all of this answer; the relay fetches the rest. */
  finished(stream: AnswerStream): void {
    this.#joiner.forget(stream);
    if (stream.state === 'dropped') return this.#forget(stream);
    this.#expiry.set(
      stream,
      this.#ports.clock.setTimeout(() => this.#forget(stream), KEEP_FINISHED_MS),
    );
  }

  /** Closes the socket once everything sent has left. */
  async close(withinMs?: number): Promise<void> {
    this.#joiner.stop();
    for (const stream of this.#streams.values()) this.#waiting.add(stream);
    this.#flush();
    for (const timer of this.#expiry.values()) this.#ports.clock.clearTimeout(timer);
    this.#expiry.clear();
    this.#ports.clock.clearTimeout(this.#unknownTimer);
    await this.#socket?.close(undefined, undefined, withinMs);
  }

  #reconnected(): void {
    for (const stream of this.#streams.values()) {
      stream.reconnected();
      this.#waiting.add(stream);
    }
    this.#flush();
  }

  /** Sends in the next turn of the event loop, so that events already waiting get into the same message. */
  #plan(stream: AnswerStream): void {
    this.#waiting.add(stream);
    if (this.#flushPlanned) return;
    this.#flushPlanned = true;
    this.#ports.clock.setImmediate(() => {
      this.#flushPlanned = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (!this.#socket?.isOpen) return;
    const records: AnswerRecord[] = [];
    for (const stream of this.#waiting) stream.collect(records);
    this.#waiting.clear();
    for (const message of messagesOf(records)) this.#socket.send(encodeRecords(message));
    this.#events.changed();
  }

  #receive(data: Uint8Array): void {
    let records: AnswerRecord[];
    try {
      records = decodeRecords(data);
    } catch (error) {
      if (!(error instanceof AnswerFormatError)) throw error;
      this.#ports.log.warn(
        { problem: error.message },
        'the relay sent a message that cannot be read; ignored',
      );
      return;
    }
    for (const record of records) this.#apply(record);
    this.#events.changed();
  }

  /** Applies a record of the relay. If its stream is unknown, all that matters is that a relay waits for it. */
  #apply(record: AnswerRecord): void {
    const stream = this.#streams.get(record.stream);
    if (!stream) {
      if (record.type === 'taken') this.#wonder(record.stream);
      return;
    }
    if (record.type === 'taken' && stream.mayLackEnd) this.#socket?.send(encodeRecords([stream.endRecord]));
    else if (record.type === 'taken') stream.taken(record.offset);
    else if (record.type === 'pause') stream.pause();
    else if (record.type === 'resume') stream.resume();
    else if (record.type === 'cancel') stream.cancel(record.reason);
    // A stream whose end the relay may ask for again is forgotten after a while.
    if ((stream.state === 'complete' && !stream.mayLackEnd) || stream.state === 'dropped')
      this.#forget(stream);
  }

  /**
   * Declines an unknown stream after a while: an earlier process had it, or its job is still on the way. The worker
   * reports nothing about a stream whose job has ended.
   */
  #wonder(streamId: number): void {
    this.#unknown.add(streamId);
    this.#unknownTimer ??= this.#ports.clock.setTimeout(() => {
      this.#unknownTimer = null;
      for (const unknown of [...this.#unknown]) this.decline(unknown, NOT_HERE);
    }, UNKNOWN_FOR_MS);
  }

  #forget(stream: AnswerStream): void {
    if (stream.state !== 'complete') stream.drop();
    this.#ports.clock.clearTimeout(this.#expiry.get(stream));
    this.#expiry.delete(stream);
    this.#waiting.delete(stream);
    if (this.#streams.get(stream.id) === stream) this.#streams.delete(stream.id);
    this.#events.changed();
  }
}

/** Splits records into messages of a moderate size. An end goes with the record before it (`AnswerStream.collect`). */
function* messagesOf(records: AnswerRecord[]): Generator<AnswerRecord[]> {
  let run: AnswerRecord[] = [];
  let bytes = 0;
  for (const record of records) {
    const size = recordBytes(record.type === 'bytes' ? record.data.byteLength : 0);
    if (run.length > 0 && record.type !== 'end' && bytes + size > MESSAGE_BYTES) {
      yield run;
      run = [];
      bytes = 0;
    }
    run.push(record);
    bytes += size;
  }
  if (run.length > 0) yield run;
}
