const LF = 10;
const CR = 13;

/**
 * Cuts an event stream at the ends of events (blank lines, `\n\n` or `\r\n\r\n`), so that every record given
 * to the relay holds whole events.
 */
export class EventSplitter {
  /** Pieces of the event that is not whole yet. */
  #held: Uint8Array[] = [];
  /** Its last two bytes, oldest first: a blank line may begin in one piece and end in the next. */
  #lastTwo: [number, number] = [0, 0];

  /** The whole events that this piece completes, or null. */
  push(piece: Uint8Array): Uint8Array | null {
    const end = this.#lastEventEnd(piece);
    this.#remember(piece);
    if (end === 0) {
      this.#held.push(piece);
      return null;
    }
    const events = this.#join(end === piece.byteLength ? piece : piece.subarray(0, end));
    this.#held = end === piece.byteLength ? [] : [piece.subarray(end)];
    return events;
  }

  /** What remains at the end of the stream, or null. */
  rest(): Uint8Array | null {
    const last = this.#held.pop();
    return last ? this.#join(last) : null;
  }

  #join(last: Uint8Array): Uint8Array {
    return this.#held.length === 0 ? last : Buffer.concat([...this.#held, last]);
  }

  /** Just after the last blank line that ends in this piece; 0 when none does. */
  #lastEventEnd(piece: Uint8Array): number {
    let at = piece.lastIndexOf(LF);
    while (at >= 0) {
      const before = this.#byteAt(piece, at - 1);
      if (before === LF || (before === CR && this.#byteAt(piece, at - 2) === LF)) return at + 1;
      at = at === 0 ? -1 : piece.lastIndexOf(LF, at - 1);
    }
    return 0;
  }

  #byteAt(piece: Uint8Array, index: number): number {
    return (index >= 0 ? piece[index] : this.#lastTwo[2 + index]) ?? 0;
  }

  #remember(piece: Uint8Array): void {
    for (const byte of piece.subarray(-2)) this.#lastTwo = [this.#lastTwo[1], byte];
  }
}
