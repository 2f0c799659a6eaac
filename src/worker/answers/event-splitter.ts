import { EventEnds, limits } from '../../protocol/index.ts';

/**
 * Cuts an event stream at the ends of events, so that an answer that breaks off ends with a whole event. An event
 * larger than EVENT_HELD_BYTES is not held for that: it passes in parts.
 */
export class EventSplitter {
  readonly #ends = new EventEnds();
  /** Pieces of the event that is not whole yet. */
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  readonly #mostBytes: number;

  constructor(mostBytes = limits.EVENT_HELD_BYTES) {
    this.#mostBytes = mostBytes;
  }

  /** What can be sent now that this piece has come: whole events, or a part of one that is too large to be held. */
  push(piece: Uint8Array): Uint8Array | null {
    const end = this.#ends.see(piece);
    if (end > 0) {
      const events = this.#join(piece.subarray(0, end));
      this.#hold(piece.subarray(end));
      return events;
    }
    if (this.#heldBytes + piece.byteLength > this.#mostBytes) return this.#join(piece);
    this.#hold(piece);
    return null;
  }

  /** What remains at the end of the stream, or null. */
  rest(): Uint8Array | null {
    const last = this.#held.pop();
    return last ? this.#join(last) : null;
  }

  #hold(piece: Uint8Array): void {
    if (piece.byteLength === 0) return;
    this.#held.push(piece);
    this.#heldBytes += piece.byteLength;
  }

  #join(last: Uint8Array): Uint8Array {
    const joined = this.#held.length === 0 ? last : Buffer.concat([...this.#held, last]);
    this.#held = [];
    this.#heldBytes = 0;
    return joined;
  }
}
