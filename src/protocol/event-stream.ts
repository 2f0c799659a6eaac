import { joinBytes } from './bytes.ts';
/**
 * Headers by which an answer that comes piece by piece steers the proxies on its way to the caller: nginx gathers 8 kB
 * by default before it sends any, and `x-accel-buffering` switches that off for one answer; caches store none of it.
 */
export const UNBUFFERED = { 'cache-control': 'no-cache', 'x-accel-buffering': 'no' } as const;

/** The headers of a stream of server-sent events. */
export const EVENT_STREAM = { 'content-type': 'text/event-stream; charset=utf-8', ...UNBUFFERED } as const;

/*
 * An event ends, for everybody who reads a stream (HTML Standard, 9.2.6), with an empty line; lines end with `\n`,
 * `\r\n` or `\r`. An empty line with no event before it ends nothing. The last byte so far may be half of a line end: a
 * `\r` behind a `\n` waits for its own `\n`, and one behind a `\r` does not.
 *
 * `EventEnds` finds the ends in bytes, and `splitEvents`, `countEvents` and `EventTexts` in text.
 */
const LF = 10;
const CR = 13;

/**
 * Finds where the events of a stream end in its bytes. An end may begin in one piece and be complete in a later one.
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
    const { length } = piece;
    if (length === 0) return 0;
    const end = this.#lastEnd(piece);
    this.#isBetween = end === length;
    this.#lastButOne = length > 1 ? piece[length - 2]! : this.#last;
    this.#last = piece[length - 1]!;
    return end;
  }

  #lastEnd(piece: Uint8Array): number {
    for (let at = piece.length - 1; at >= 0; at--) {
      const byte = piece[at]!;
      if (byte !== LF && byte !== CR) continue;
      const before = this.#byteAt(piece, at - 1);
      if (byte === CR && before === LF && at === piece.length - 1) continue;
      const isPair = byte === LF && before === CR;
      if (isLineEnd(isPair ? this.#byteAt(piece, at - 2) : before)) return at + 1;
    }
    return 0;
  }

  #byteAt(piece: Uint8Array, index: number): number {
    if (index >= 0) return piece[index]!;
    return index === -1 ? this.#last : this.#lastButOne;
  }
}

/** Cuts the bytes of a stream where events end, so that what it returns begins and ends between two events. */
export class EventCutter {
  readonly #ends = new EventEnds();
  #held: Uint8Array[] = [];

  /** Takes the next piece. @returns the events that end in it, whole; null: none does */
  push(piece: Uint8Array): Uint8Array<ArrayBuffer> | null {
    const end = this.#ends.see(piece);
    if (end === 0) {
      this.#held.push(piece.slice());
      return null;
    }
    const whole = joinBytes([...this.#held, piece.subarray(0, end)]);
    this.#held = end < piece.byteLength ? [piece.slice(end)] : [];
    return whole;
  }

  /** The bytes of the event that is not whole yet; empty if there is none. */
  get rest(): Uint8Array<ArrayBuffer> {
    return joinBytes(this.#held);
  }
}

/** Cuts text behind every empty line. @param events text that begins where an event does */
export function splitEvents(events: string): string[] {
  const split: string[] = [];
  const hasReturns = events.includes('\r');
  let from = 0;
  for (let end = emptyLine(events, 0, hasReturns); end >= 0; end = emptyLine(events, end, hasReturns)) {
    split.push(events.slice(from, end));
    from = end;
  }
  if (from < events.length) split.push(events.slice(from));
  return split;
}

/**
 * Counts the events that end in a text.
 * @param events text that begins where an event does
 * @param hasBegun whether text of the first event came earlier
 */
export function countEvents(events: string, hasBegun = false): number {
  const hasReturns = events.includes('\r');
  let count = 0;
  let from = 0;
  for (let end = emptyLine(events, 0, hasReturns); end >= 0; end = emptyLine(events, end, hasReturns)) {
    if ((hasBegun && from === 0) || !isLineEnd(events.charCodeAt(from))) count += 1;
    from = end;
  }
  return count;
}

/**
 * Returns the place behind the first empty line from the beginning of a line on; -1: there is none.
 * @param hasReturns whether the text has a `\r`; almost none has, and these are searched natively
 */
function emptyLine(text: string, from: number, hasReturns: boolean): number {
  if (!hasReturns) {
    if (text.charCodeAt(from) === LF) return from + 1;
    const at = text.indexOf('\n\n', from);
    return at < 0 ? -1 : at + 2;
  }
  let isEmpty = true;
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (!isLineEnd(code)) {
      isEmpty = false;
      continue;
    }
    const isHalf = code === CR && at === text.length - 1 && text.charCodeAt(at - 1) === LF;
    if (isHalf) return -1;
    if (code === CR && text.charCodeAt(at + 1) === LF) at += 1;
    if (isEmpty) return at + 1;
    isEmpty = true;
  }
  return -1;
}

function isLineEnd(code: number): boolean {
  return code === LF || code === CR;
}

/** Cuts a stream in UTF-8 into the texts of its events, for readers that parse each of them. */
export class EventTexts {
  readonly #decoder = new TextDecoder();
  /** The text of an event that is not whole yet. */
  #held = '';

  /** Takes the next piece. @returns the events that are whole with it */
  push(piece: Uint8Array): string[] {
    return this.#cut(this.#decoder.decode(piece, { stream: true }));
  }

  /** Returns the events at the end of the stream, the last of which may lack its empty line. */
  end(): string[] {
    const events = this.#cut(this.#decoder.decode());
    if (this.#held !== '') events.push(this.#held);
    this.#held = '';
    return events;
  }

  #cut(text: string): string[] {
    const events = splitEvents(this.#held + text);
    const last = events.at(-1) ?? '';
    this.#held = countEvents(last, true) > 0 ? '' : (events.pop() ?? '');
    return events;
  }
}

/** The lines of an event. */
export interface EventFields {
  /** The value of the event's field `event`; null: it has none. */
  name: string | null;
  /** The lines of the event's data, without the blanks around them. */
  data: string;
  /** The event's comments, without the blanks around them. */
  comment: string;
  /**
   * Whether clients do not recognise the event: JSON without a name (Ollama), a field `error` (llama.cpp until 2025),
   * or a name with blanks behind it.
   */
  isOdd: boolean;
}

/** Reads the lines of an event. */
export function eventFields(event: string): EventFields {
  let name: string | null = null;
  let isOdd = false;
  const data: string[] = [];
  const odd: string[] = [];
  const comments: string[] = [];
  for (const line of event.split(/\r\n|\n|\r/)) {
    const [, field, value = ''] = /^(\w*): ?(.*)$/s.exec(line) ?? [];
    if (field === 'data') data.push(value);
    else if (field === '') comments.push(value);
    else if (field === 'event') {
      name = value.trim();
      isOdd = name !== value;
    } else if (field === 'error') odd.push(`{"error":${value}}`);
    else if (line.startsWith('{')) odd.push(line);
  }
  const comment = comments.join('\n').trim();
  if (data.length === 0 && odd.length > 0) return { name, data: odd[0]!, comment, isOdd: true };
  return { name, data: data.join('\n').trim(), comment, isOdd };
}

/** Returns the data of an event: its lines, without the blanks around them. */
export function eventData(event: string): string {
  return eventFields(event).data;
}

/**
 * Matches the data of an event up to a line end. It does not use `.`, for which U+2028 and U+2029 end a line: JSON need
 * not escape them, and vLLM does not.
 */
const JSON_DATA = /^data: ?(\{[^\r\n]*\})\r?$/m;

/** Returns the text of the object in an event, or in the first of several events that has one; null if none has. */
export function jsonIn(events: string): string | null {
  return JSON_DATA.exec(events)?.[1] ?? null;
}
