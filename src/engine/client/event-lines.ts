import { engineRoute, isEventStream, isPlainBody } from '../../protocol/index.ts';
import { resumed } from './resumed.ts';
import { type AnswerBody, type EngineAnswer, readPieces, type TakePiece } from './types.ts';

const LF = 10;
const CR = 13;
/** The byte order mark that may stand before the first event, in UTF-8. */
const MARK = Buffer.from('\ufeff');
const NOTHING = Buffer.alloc(0);

/** Matches the beginning of an event stream of any content type: JSON, HTML and prose do not begin like this. */
const EVENTS = /^(?:\ufeff)?(?:(?:data|event|id|retry)?:|\s*\n(?:data|event|id|retry)?:)/;

/**
 * Returns an answer whose event stream all later readers can read. Readers in clients, and those of this project, know
 * lines that end with `\n` or `\r\n`, and few know a byte order mark (HTML Standard, 9.2.6, has all of these). A stream
 * to which its engine gives another content type, or none, gets that of a stream, so that later readers look for its
 * errors and its end.
 */
export async function readableEvents(answer: EngineAnswer, path: string): Promise<EngineAnswer> {
  if (isEventStream(answer.headers)) return { ...answer, body: plainLines(answer.body) };
  const hasList = (engineRoute(path)?.list ?? null) !== null;
  const mayBeEvents = answer.status < 300 && isPlainBody(answer.headers) && hasList;
  if (!mayBeEvents) return answer;
  const pieces = answer.body[Symbol.asyncIterator]();
  const first = await pieces.next();
  const beginning = Buffer.from(first.value ?? NOTHING);
  const isMarked = beginning.subarray(0, MARK.byteLength).equals(MARK);
  const body = resumed([isMarked ? beginning.subarray(MARK.byteLength) : beginning], pieces);
  if (!EVENTS.test(beginning.toString())) return { ...answer, body };
  const headers = { ...answer.headers, 'content-type': 'text/event-stream' };
  return { ...answer, headers, body: plainLines(body) };
}

function plainLines(body: AnswerBody): AnswerBody {
  const eachPiece = async (take: TakePiece): Promise<void> => {
    const lines = new EventLines();
    await readPieces(body, (piece) => {
      const plain = lines.push(piece);
      return plain.byteLength === 0 ? undefined : take(plain);
    });
    const rest = lines.rest();
    if (rest.byteLength > 0) await take(rest);
  };
  return { eachPiece, [Symbol.asyncIterator]: () => plainPieces(body) };
}

async function* plainPieces(body: AnswerBody): AsyncGenerator<Uint8Array, void, undefined> {
  const lines = new EventLines();
  for await (const piece of body) {
    const plain = lines.push(piece);
    if (plain.byteLength > 0) yield plain;
  }
  const rest = lines.rest();
  if (rest.byteLength > 0) yield rest;
}

/**
 * Removes the byte order mark before an event stream, and writes `\n` where its lines end with `\r` alone. The first
 * line tells whether they do: a stream of any other kind passes as it is from there on.
 */
export class EventLines {
  #state: 'beginning' | 'first line' | 'as it is' | 'returns' = 'beginning';
  /** Bytes whose meaning depends on those behind them: a part of the mark, or the first carriage return. */
  #held: Uint8Array = NOTHING;
  /** True if the last byte was a carriage return, so that a line feed behind it ends no other line. */
  #isBehindReturn = false;

  push(piece: Uint8Array): Uint8Array {
    if (this.#state === 'as it is') return piece;
    const bytes = this.#held.byteLength === 0 ? piece : Buffer.concat([this.#held, piece]);
    this.#held = NOTHING;
    return this.#state === 'returns' ? this.#withFeeds(bytes) : this.#begin(bytes);
  }

  /** Returns the bytes that are held at the end of the stream. */
  rest(): Uint8Array {
    return this.#state === 'first line' ? this.#withFeeds(this.#held) : this.#held;
  }

  #begin(given: Uint8Array): Uint8Array {
    let bytes = given;
    if (this.#state === 'beginning') {
      const length = Math.min(MARK.byteLength, bytes.byteLength);
      const isMark = MARK.subarray(0, length).equals(bytes.subarray(0, length));
      if (isMark && length < MARK.byteLength) return this.#hold(bytes, 0);
      if (isMark) bytes = bytes.subarray(length);
      this.#state = 'first line';
    }
    const feed = bytes.indexOf(LF);
    const carriage = bytes.indexOf(CR);
    if (feed < 0 && carriage < 0) return bytes;
    if (feed >= 0 && (carriage < 0 || carriage >= feed - 1)) this.#state = 'as it is';
    else if (carriage === bytes.byteLength - 1) return this.#hold(bytes, carriage);
    else this.#state = 'returns';
    return this.#state === 'returns' ? this.#withFeeds(bytes) : bytes;
  }

  #hold(bytes: Uint8Array, from: number): Uint8Array {
    this.#held = bytes.slice(from);
    return bytes.subarray(0, from);
  }

  #withFeeds(bytes: Uint8Array): Uint8Array {
    const plain = new Uint8Array(bytes.byteLength);
    let length = 0;
    for (const byte of bytes) {
      const isDouble = byte === LF && this.#isBehindReturn;
      this.#isBehindReturn = byte === CR;
      if (!isDouble) plain[length++] = byte === CR ? LF : byte;
    }
    return plain.subarray(0, length);
  }
}
