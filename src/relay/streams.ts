import { type BrokenReason, bounds } from '../protocol/index.ts';
import { CallerStream } from './caller-stream.ts';
import { FinishedStreams } from './finished.ts';
import type { Reply } from './replies.ts';
import type { CallerSink, StreamPorts } from './stream-ports.ts';

/** A stream that still has something for its caller. */
export interface Entry {
  stream: CallerStream;
  /** The time of the last record or keep-alive, epoch ms. */
  touched_at: number;
  created_at: number;
  /** The time of the first byte, epoch ms; null before. */
  opened_at: number | null;
  sink: CallerSink | null;
  over_at: number | null;
  /** The stream's unclaimed bytes, as last counted in the total. */
  unclaimed_bytes: number;
  /** The stream's stored ids, as last counted in the total. */
  ids: number;
  /** The caller's request, for an answer that is moved; null: unknown. */
  asked: unknown;
}

/** All streams of a relay, and how much they hold together for callers that have not come. */
export class Streams {
  readonly #entries = new Map<number, Entry>();
  readonly #finished = new FinishedStreams();
  readonly #now: () => number;
  readonly #ports: StreamPorts;
  #unclaimedBytes = 0;
  #ids = 0;

  constructor(now: () => number, ports: Omit<StreamPorts, 'isCrowded' | 'hasIdsEnough'>) {
    this.#now = now;
    const hasIdsEnough = () => this.#ids > bounds.MOVING_IDS_OF_WORKER;
    this.#ports = { ...ports, isCrowded: () => this.isCrowded, hasIdsEnough };
  }

  get size(): number {
    return this.#entries.size + this.#finished.size;
  }

  /** The number of answers that their callers do not have in full. */
  get held(): number {
    return this.#entries.size;
  }

  get isCrowded(): boolean {
    return this.#unclaimedBytes > bounds.RELAY_UNCLAIMED_BYTES;
  }

  get isOverfull(): boolean {
    return this.#unclaimedBytes > bounds.RELAY_UNCLAIMED_MOST_BYTES;
  }

  has(id: number): boolean {
    return this.#entries.has(id) || this.#finished.has(id);
  }

  /** Returns whether the stream is over and its caller has everything. */
  isFinished(id: number): boolean {
    return this.#finished.has(id);
  }

  /** Returns the reply to a worker that sends bytes of a finished stream, or null. */
  replyToFinished(id: number): Reply | null {
    return this.#finished.replyToBytes(id);
  }

  get(id: number): Entry | null {
    return this.#entries.get(id) ?? null;
  }

  /** Returns the streams that are not finished. */
  all(): Iterable<[id: number, entry: Entry]> {
    return this.#entries;
  }

  resumePoints(): Reply[] {
    const points = [...this.#entries.values()].flatMap(({ stream }) => stream.resumePoint());
    return [...points, ...this.#finished.resumePoints()];
  }

  /** Changes a stream, which begins if it is unknown. All changes of streams go through here or `changeKnown`. */
  change(id: number, change: (stream: CallerStream, entry: Entry) => void): void {
    if (this.#finished.has(id)) return;
    if (!this.#entries.has(id)) this.#entries.set(id, this.#begun(id));
    this.changeKnown(id, change);
  }

  /** Changes a stream if it is known. A stream that the change finishes leaves only a note. */
  changeKnown(id: number, change: (stream: CallerStream, entry: Entry) => void): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    change(entry.stream, entry);
    const { remains } = entry.stream;
    if (remains === null) {
      this.#count(entry, entry.stream.unclaimedBytes, entry.stream.ids);
      return;
    }
    this.forget(id, entry);
    this.#finished.add(id, { ...remains, over_at: this.#now() });
  }

  forget(id: number, entry: Entry): void {
    this.#count(entry, 0, 0);
    this.#entries.delete(id);
  }

  /** Remembers a stream that was given up, so that its late records begin no new one. */
  rememberBroken(id: number): void {
    this.#finished.add(id, { state: 'broken', received: 0, over_at: this.#now() });
  }

  forgetOldFinished(): void {
    this.#finished.forgetOld(this.#now());
  }

  #count(entry: Entry, unclaimedBytes: number, ids: number): void {
    this.#unclaimedBytes += unclaimedBytes - entry.unclaimed_bytes;
    this.#ids += ids - entry.ids;
    entry.unclaimed_bytes = unclaimedBytes;
    entry.ids = ids;
  }

  #begun(id: number): Entry {
    const now = this.#now();
    const stream = new CallerStream(id, this.#ports);
    return {
      stream,
      touched_at: now,
      created_at: now,
      opened_at: null,
      sink: null,
      over_at: null,
      unclaimed_bytes: 0,
      ids: 0,
      asked: null,
    };
  }
}

/** Adds the time of the first byte to the reason, which only the relay knows. */
export function withFirstByte(entry: Entry | null, reason: BrokenReason): BrokenReason {
  if (entry === null || entry.opened_at === null) return reason;
  const seconds = ((entry.opened_at - entry.created_at) / 1000).toFixed(1);
  return { ...reason, message: `${reason.message}, first token after ${seconds} s` };
}
