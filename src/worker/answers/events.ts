import { bounds, EventEnds } from '../../protocol/index.ts';

/** Some events of a stream, one behind another. */
export interface Events {
  readonly bytes: Uint8Array;
  /** The bytes, each as one character, so that bytes that are no UTF-8 stay as they are. */
  readonly text: string;
  /** False: the bytes are a part of one event that is too large to be held until it is whole. */
  readonly isWhole: boolean;
}

/**
 * Cuts the bytes of an event stream where events end, once for all readers of the events. Only whole events go on, so
 * an answer that breaks off ends with one.
 */
export class EventReader {
  readonly #ends = new EventEnds();
  /** The pieces of the event that is not whole yet. */
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  readonly #mostBytes: number;

  /** @param mostBytes an event is held until it is whole up to this many bytes; a larger one passes in parts */
  constructor(mostBytes = bounds.EVENT_HELD_BYTES) {
    this.#mostBytes = mostBytes;
  }

  /** Returns the events that are whole with this piece, a part of an event that is too large, or null. */
  push(piece: Uint8Array): Events | null {
    const end = this.#ends.see(piece);
    if (end > 0) {
      const isAll = end === piece.byteLength;
      const events = this.#join(isAll ? piece : piece.subarray(0, end), true);
      if (!isAll) this.#hold(piece.subarray(end));
      return events;
    }
    if (this.#heldBytes + piece.byteLength > this.#mostBytes) return this.#join(piece, false);
    this.#hold(piece);
    return null;
  }

  /** The text of the event that is not whole yet. */
  get unfinished(): string {
    return this.#held.map(characters).join('');
  }

  /** Returns the bytes held at the end of the stream, which count as an event, or null. */
  rest(): Events | null {
    const last = this.#held.pop();
    return last ? this.#join(last, true) : null;
  }

  #hold(piece: Uint8Array): void {
    if (piece.byteLength === 0) return;
    this.#held.push(piece);
    this.#heldBytes += piece.byteLength;
  }

  #join(last: Uint8Array, isWhole: boolean): Events {
    let bytes = last;
    if (this.#held.length > 0) {
      bytes = Buffer.concat([...this.#held, last]);
      this.#held = [];
      this.#heldBytes = 0;
    }
    return { bytes, text: characters(bytes), isWhole };
  }
}

/** Returns a text with one character for each byte. */
export function characters(bytes: Uint8Array): string {
  const buffer =
    bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString('latin1');
}
