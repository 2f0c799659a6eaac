import { engineJson } from './engine-json.ts';
import { isObject } from './fields.ts';

/**
 * Headers by which an answer that comes piece by piece steers the proxies on its way to the caller: nginx gathers 8 kB
 * by default before it sends any, and `x-accel-buffering` switches that off for one answer; caches store none of it.
 */
export const UNBUFFERED = { 'cache-control': 'no-cache', 'x-accel-buffering': 'no' } as const;

/** The headers of a stream of server-sent events. */
export const EVENT_STREAM = { 'content-type': 'text/event-stream; charset=utf-8', ...UNBUFFERED } as const;

const LF = 10;
const CR = 13;

/** Matches the places behind blank lines: a blank line ends an event, or means nothing behind another blank line. */
const BLANK_LINES = /(?<=(?:^|\n)\r?\n)/;

/** Cuts text behind every blank line. @param events text that begins where an event does */
export function splitEvents(events: string): string[] {
  return events.split(BLANK_LINES);
}

/**
 * Finds where the events of a stream end: at blank lines, `\n\n` or `\r\n\r\n`, which may begin in one piece and end in
 * the next.
 */
export class EventEnds {
  /** The last byte seen, and the one before it. */
  #last = 0;
  #lastButOne = 0;
  #isBetween = true;

  /** Whether no event is unfinished: nothing was seen yet, or the last thing seen was the end of one. */
  get isBetween(): boolean {
    return this.#isBetween;
  }

  /**
   * Takes the next piece. @returns the place just after the last end of an event in this piece, or 0 if none ends here
   */
  see(piece: Uint8Array): number {
    if (piece.byteLength === 0) return 0;
    const end = this.#lastEnd(piece);
    this.#isBetween = end === piece.byteLength;
    const { length } = piece;
    this.#lastButOne = length > 1 ? piece[length - 2]! : this.#last;
    this.#last = piece[length - 1]!;
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
    if (index >= 0) return piece[index]!;
    return index === -1 ? this.#last : this.#lastButOne;
  }
}

/**
 * Matches the data of an event up to a line end. It does not use `.`, for which U+2028 and U+2029 end a line: JSON need
 * not escape them, and vLLM does not.
 */
const DATA = /^data: ?(\{[^\r\n]*\})\r?$/m;

/** Returns the object that the data of an event stands for, or an empty one where it stands for none. */
export function objectIn(json: string): Record<string, unknown> {
  const value = engineJson(json)?.value;
  return isObject(value) ? value : {};
}

/** Returns the text of the object in an event, or in the first of several events that has one; null if none has. */
export function jsonIn(events: string): string | null {
  return DATA.exec(events)?.[1] ?? null;
}
