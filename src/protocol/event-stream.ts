/**
 * Headers by which an answer that comes piece by piece steers the proxies between here and its caller: nginx gathers 8
 * kB by default before it sends any, and `x-accel-buffering` switches that off for one answer; caches keep none of it.
 */
export const UNBUFFERED = { 'cache-control': 'no-cache', 'x-accel-buffering': 'no' } as const;

/** The headers of a stream of server-sent events. */
export const EVENT_STREAM = { 'content-type': 'text/event-stream; charset=utf-8', ...UNBUFFERED } as const;

const LF = 10;
const CR = 13;

/** Where the events of a stream end: at blank lines, `\n\n` or `\r\n\r\n`, which may begin in one piece and end in the next. */
export class EventEnds {
  /** The last two bytes seen, oldest first. */
  #lastTwo: [number, number] = [0, 0];
  #isBetween = true;

  /** No event is unfinished: nothing was seen yet, or the last thing seen was the end of one. */
  get isBetween(): boolean {
    return this.#isBetween;
  }

  /** @returns just after the last end of an event in this piece; 0 when none ends here */
  see(piece: Uint8Array): number {
    if (piece.byteLength === 0) return 0;
    const end = this.#lastEnd(piece);
    this.#isBetween = end === piece.byteLength;
    const { length } = piece;
    this.#lastTwo = [length > 1 ? piece[length - 2]! : this.#lastTwo[1], piece[length - 1]!];
    return end;
  }

  #lastEnd(piece: Uint8Array): number {
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
}
