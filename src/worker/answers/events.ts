import {
  bounds,
  type Dialect,
  EventEnds,
  type EventSays,
  engineJson,
  isObject,
  jsonIn,
  readEvent,
  splitEvents,
} from '../../protocol/index.ts';

type Fields = Record<string, unknown>;

/** Changes the events of a stream on their way, or holds some back. */
export interface EventTransform {
  /** Takes the next events. @returns those that may be passed on; null: none may yet */
  push(events: Events): Events | null;
  /**
   * Returns the events held back at the end of the stream; null: none may be passed on.
   * @param isCut whether the stream breaks off here, and another engine may continue it
   */
  end(isCut: boolean): Events | null;
}

/** The transforms that one stream needs, in their order. If there is none, the stream's bytes pass unchanged. */
export class EventPipeline {
  readonly #transforms: readonly EventTransform[];
  readonly #write: (events: Events) => void;

  constructor(transforms: readonly EventTransform[], write: (events: Events) => void) {
    this.#transforms = transforms;
    this.#write = write;
  }

  push(events: Events): void {
    this.#pass(events, 0);
  }

  /** Passes on what is held back at the end of the stream. @param isCut as in `EventTransform` */
  end(isCut: boolean): void {
    for (let at = 0; at < this.#transforms.length; at++) {
      const held = this.#transforms[at]!.end(isCut);
      if (held !== null) this.#pass(held, at + 1);
    }
  }

  #pass(events: Events, first: number): void {
    let passed = events;
    for (let at = first; at < this.#transforms.length; at++) {
      const next = this.#transforms[at]!.push(passed);
      if (next === null) return;
      passed = next;
    }
    this.#write(passed);
  }
}

/** One event of a stream. Its JSON is parsed once, when somebody first asks for it. */
export class StreamEvent {
  /** The bytes of the event, one character each, so that bytes that are no UTF-8 stay as they are. */
  readonly text: string;
  #read: { json: string; data: Fields } | null | undefined;

  constructor(text: string) {
    this.text = text;
  }

  /** The object in the data of the event; null: it has none. */
  get data(): Fields | null {
    return this.#parsed?.data ?? null;
  }

  /** Returns what the event reports of its answer. */
  says(dialect: Dialect): EventSays {
    return readEvent(unicode(this.text), dialect, this.#parsed);
  }

  /** Returns the same event with other data. */
  withData(data: Fields): StreamEvent {
    const written = characters(Buffer.from(JSON.stringify(data)));
    return new StreamEvent(this.text.replace(jsonIn(this.text)!, () => written));
  }

  get #parsed(): { json: string; data: Fields } | null {
    if (this.#read === undefined) {
      const found = jsonIn(this.text);
      const json = found === null ? '' : unicode(found);
      const data = engineJson(json)?.value;
      this.#read = isObject(data) ? { json, data } : null;
    }
    return this.#read;
  }
}

/** Consecutive events of a stream, as bytes, as text and one by one; each form is made when it is requested. */
export class Events {
  /**
   * Whether the events are whole; false: they are a part of one event that is too large to be held until it is whole.
   */
  readonly isWhole: boolean;
  /**
   * Whether the events may hold more than the text of tokens: a usage, an error, the end of a choice or of the stream.
   */
  isMarked = true;
  #bytes: Uint8Array | null = null;
  #text: string | null = null;
  #list: readonly StreamEvent[] | null = null;

  private constructor(isWhole: boolean) {
    this.isWhole = isWhole;
  }

  static ofBytes(bytes: Uint8Array, isWhole = true): Events {
    const events = new Events(isWhole);
    events.#bytes = bytes;
    return events;
  }

  /** Returns the events of a text. @param text has one character for each byte */
  static ofText(text: string): Events {
    const events = new Events(true);
    events.#text = text;
    return events;
  }

  /** Returns the events of a list. @returns null if the list is empty */
  static ofList(list: readonly StreamEvent[]): Events | null {
    if (list.length === 0) return null;
    const events = new Events(true);
    events.#list = list;
    return events;
  }

  get bytes(): Uint8Array {
    this.#bytes ??= Buffer.from(this.text, 'latin1');
    return this.#bytes;
  }

  /** The bytes, one character each. */
  get text(): string {
    this.#text ??=
      this.#bytes === null ? this.#list!.map(({ text }) => text).join('') : characters(this.#bytes);
    return this.#text;
  }

  get list(): readonly StreamEvent[] {
    this.#list ??= splitEvents(this.text).map((text) => new StreamEvent(text));
    return this.#list;
  }

  /** Returns the events before a position in their bytes. */
  before(at: number): Events {
    return Events.ofBytes(this.bytes.subarray(0, at), this.isWhole);
  }
}

/**
 * Cuts the bytes of an event stream where events end, once for all readers of the events. Only whole events are passed
 * on, so an answer that breaks off ends with a whole event.
 */
export class EventReader {
  readonly #ends = new EventEnds();
  /** The pieces of the event that is not whole yet. */
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  readonly #mostBytes: number;

  /** @param mostBytes an event of up to this many bytes is held until it is whole; a larger one passes in parts */
  constructor(mostBytes = bounds.EVENT_HELD_BYTES) {
    this.#mostBytes = mostBytes;
  }

  /** Returns the events that this piece completes, a part of an event that is too large, or null. */
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

  /** Returns the bytes held at the end of the stream, which count as an event; null: none are held. */
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
    if (this.#held.length === 0) return Events.ofBytes(last, isWhole);
    const bytes = Buffer.concat([...this.#held, last]);
    this.#held = [];
    this.#heldBytes = 0;
    return Events.ofBytes(bytes, isWhole);
  }
}

/** Returns a text with one character for each byte. */
export function characters(bytes: Uint8Array): string {
  const buffer =
    bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString('latin1');
}

/** Matches what is no ASCII. */
const BEYOND_ASCII = /[^\0-\x7f]/;

/** Decodes UTF-8. @param text has one character for each byte */
function unicode(text: string): string {
  return BEYOND_ASCII.test(text) ? Buffer.from(text, 'latin1').toString() : text;
}
