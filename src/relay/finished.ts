import { type Reply, stop } from './replies.ts';

/** How long a finished stream is remembered, so that late records of it are not taken for a new one, ms. */
const REMEMBER_MS = 60_000;

/** The note about a stream that is over, and all of which its caller has. */
interface Finished {
  state: 'ended' | 'cancelled' | 'broken';
  /** Bytes of its answer that came. */
  received: number;
  /** Epoch ms */
  over_at: number;
}

/** Streams that are over, without what they held. */
export class FinishedStreams {
  readonly #streams = new Map<number, Finished>();

  get size(): number {
    return this.#streams.size;
  }

  has(id: number): boolean {
    return this.#streams.has(id);
  }

  add(id: number, finished: Finished): void {
    // The newest is always the last.
    this.#streams.delete(id);
    this.#streams.set(id, finished);
  }

  /** The reply to a worker that goes on sending; null: none. */
  replyToBytes(id: number): Reply | null {
    const finished = this.#streams.get(id);
    return finished === undefined || finished.state === 'ended' ? null : stop(id, finished.state);
  }

  /** After the worker's socket came back: where each of them stands. */
  resumePoints(): Reply[] {
    return [...this.#streams].map(([id, { state, received }]) =>
      state === 'ended' ? { type: 'taken', stream: id, offset: received } : stop(id, state),
    );
  }

  /** @param now epoch ms */
  forgetOld(now: number): void {
    for (const [id, finished] of this.#streams) {
      const isFuture = finished.over_at > now;
      // The clock was set back since.
      if (isFuture) finished.over_at = now;
      else if (now - finished.over_at >= REMEMBER_MS) this.#streams.delete(id);
      else return;
    }
  }
}
