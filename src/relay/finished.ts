import { type Reply, stop } from './replies.ts';

/** A finished stream is remembered for this many ms, so that late records of it do not begin a new one. */
const REMEMBER_MS = 60_000;

/** The note about a stream that is over and whose caller has all of it. */
interface Finished {
  state: 'ended' | 'cancelled' | 'broken';
  /** The number of bytes of its answer that came. */
  received: number;
  /** The time of the stream's end, epoch ms. */
  over_at: number;
}

/** The notes about streams that are over. */
export class FinishedStreams {
  readonly #streams = new Map<number, Finished>();

  get size(): number {
    return this.#streams.size;
  }

  has(id: number): boolean {
    return this.#streams.has(id);
  }

  add(id: number, finished: Finished): void {
    // Deleting the old entry first makes the newest always the last.
    this.#streams.delete(id);
    this.#streams.set(id, finished);
  }

  /** Returns the reply to a worker that goes on sending, or null. */
  replyToBytes(id: number): Reply | null {
    const finished = this.#streams.get(id);
    return finished === undefined || finished.state === 'ended' ? null : stop(id, finished.state);
  }

  /** Returns where each finished stream stands, for a worker whose socket came back. */
  resumePoints(): Reply[] {
    return [...this.#streams].map(([id, { state, received }]) =>
      state === 'ended' ? { type: 'taken', stream: id, offset: received } : stop(id, state),
    );
  }

  /** @param now epoch ms */
  forgetOld(now: number): void {
    for (const [id, finished] of this.#streams) {
      const isFuture = finished.over_at > now;
      // The clock was set back since the stream's end.
      if (isFuture) finished.over_at = now;
      else if (now - finished.over_at >= REMEMBER_MS) this.#streams.delete(id);
      else return;
    }
  }
}
