import type { Clock, Timer } from '../clock.ts';
import type { AnswerStream } from './answer-stream.ts';

/** The settings of how long the events of a stream may wait for one another. */
export interface StreamInterval {
  /** The least time between two pieces of any stream, ms; 0: none. */
  minMs: number;
  /** The least time between two pieces of any stream while at least `manyStreams` run, ms. */
  maxMs: number;
  /** A stream's interval grows from `minMs` to `maxMs` over this many events, its first ones. */
  rampEvents: number;
  manyStreams: number;
}

/** Events that are due within this many ms of each other go in one message for all streams. */
const GRID_MS = 5;
/** A stream with more than this many bytes waits no longer. */
const JOINED_BYTES = 32 * 1024;
/**
 * A head without events waits this long for the first event, ms: until then a caller sees nothing of an answer anyway.
 */
const HEAD_MS = 25;
/** Timers of Node may run this many ms early. */
const EARLY_MS = 1;

/** The state of one stream's pace. */
interface Pace {
  events: number;
  sentAtMs: number;
  /** The time at which the waiting events are due; null: nothing waits. */
  dueAtMs: number | null;
}

/**
 * Decides which streams wait a little, so that the events of each go in one piece: a piece costs the relay the same,
 * however much it holds. One timer serves all streams. A stream whose last piece is older than its interval never
 * waits, so neither a first token nor a slow stream is held back.
 */
export class PieceJoiner {
  readonly #clock: Clock;
  readonly #interval: StreamInterval;
  readonly #release: (streams: AnswerStream[]) => void;
  /** The streams that have brought events and are not forgotten. */
  readonly #paces = new Map<AnswerStream, Pace>();
  #timer: Timer = null;
  #timerAtMs = Number.POSITIVE_INFINITY;

  /** @param release sends streams that have waited long enough */
  constructor(clock: Clock, interval: StreamInterval, release: (streams: AnswerStream[]) => void) {
    this.#clock = clock;
    this.#interval = interval;
    this.#release = release;
  }

  /** Lets the head of this stream wait for its first event. */
  holdHead(stream: AnswerStream): void {
    const nowMs = this.#clock.now();
    const dueAtMs = nowMs + HEAD_MS;
    this.#paceOf(stream).dueAtMs = dueAtMs;
    this.#arm(dueAtMs, nowMs);
  }

  /** Tells whether what this stream has just brought waits; if not, it is to be sent now. */
  holds(stream: AnswerStream): boolean {
    const pace = this.#paceOf(stream);
    pace.events += 1;
    if (pace.dueAtMs !== null && pace.events > 1 && stream.waitingBytes < JOINED_BYTES) return true;
    const nowMs = this.#clock.now();
    const dueAtMs = Math.floor((pace.sentAtMs + this.#intervalMs(pace)) / GRID_MS) * GRID_MS;
    if (dueAtMs <= nowMs || stream.waitingBytes >= JOINED_BYTES) {
      pace.sentAtMs = nowMs;
      pace.dueAtMs = null;
      return false;
    }
    pace.dueAtMs = dueAtMs;
    this.#arm(dueAtMs, nowMs);
    return true;
  }

  /** Forgets a stream that brings nothing more, or is sent without waiting. */
  forget(stream: AnswerStream): void {
    this.#paces.delete(stream);
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer);
    this.#paces.clear();
  }

  #paceOf(stream: AnswerStream): Pace {
    let pace = this.#paces.get(stream);
    if (!pace) {
      pace = { events: 0, sentAtMs: Number.NEGATIVE_INFINITY, dueAtMs: null };
      this.#paces.set(stream, pace);
    }
    return pace;
  }

  #intervalMs({ events }: Pace): number {
    const { minMs, maxMs, rampEvents, manyStreams } = this.#interval;
    if (this.#paces.size < manyStreams) return minMs;
    return minMs + (maxMs - minMs) * Math.min(1, events / Math.max(1, rampEvents));
  }

  #arm(dueAtMs: number, nowMs: number): void {
    if (dueAtMs >= this.#timerAtMs) return;
    this.#clock.clearTimeout(this.#timer);
    this.#timerAtMs = dueAtMs;
    this.#timer = this.#clock.setTimeout(() => this.#fire(), dueAtMs - nowMs);
  }

  #fire(): void {
    const nowMs = this.#clock.now();
    this.#timerAtMs = Number.POSITIVE_INFINITY;
    const due: AnswerStream[] = [];
    let nextAtMs = Number.POSITIVE_INFINITY;
    for (const [stream, pace] of this.#paces) {
      if (pace.dueAtMs === null) continue;
      if (pace.dueAtMs > nowMs + EARLY_MS) nextAtMs = Math.min(nextAtMs, pace.dueAtMs);
      else {
        if (pace.events > 0) pace.sentAtMs = nowMs;
        pace.dueAtMs = null;
        due.push(stream);
      }
    }
    if (nextAtMs < Number.POSITIVE_INFINITY) this.#arm(nextAtMs, nowMs);
    if (due.length > 0) this.#release(due);
  }
}
