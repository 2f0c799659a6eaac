import { Readable, type Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import { engineRoute, isEventStream, isPlainBody } from '../../protocol/index.ts';
import {
  type AnswerBody,
  type EngineAnswer,
  EngineGone,
  readPieces,
  resumed,
  type TakePiece,
} from './types.ts';

/** Decoders by the encoding of an answer's body; each is given the first piece of the body. */
const DECODERS: Readonly<Record<string, (first: Uint8Array) => Transform>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  // Some servers send deflate without its zlib header.
  deflate: (first) => (((first[0] ?? 0) & 0x0f) === 8 ? createInflate() : createInflateRaw()),
  br: () => createBrotliDecompress(),
  zstd: () => createZstdDecompress(),
};

/**
 * Decompresses the body of an answer. The worker asks engines for plain bodies, but some engines, or proxies in front
 * of them, compress all the same. Only in plain bodies can tokens be counted, events be told apart and results be
 * stored. A body in an encoding that is unknown here stays as it is.
 */
export function decodedAnswer(answer: EngineAnswer): EngineAnswer {
  const { 'content-encoding': encoding = '', 'content-length': length, ...headers } = answer.headers;
  const names = encoding.toLowerCase().split(/\s*,\s*/);
  const encodings = names.filter((name) => name !== '' && name !== 'identity');
  if (encodings.length === 0 || encodings.some((name) => !Object.hasOwn(DECODERS, name))) return answer;
  // The encoding that was applied last is named last.
  return { ...answer, headers, body: encodings.reduceRight(decodedBody, answer.body) };
}

function decodedBody(body: AnswerBody, encoding: string): AnswerBody {
  return { [Symbol.asyncIterator]: () => decodedPieces(body, encoding) };
}

/** Decodes the pieces of a body. Ending it early closes the socket to the engine, as for any body. */
async function* decodedPieces(body: AnswerBody, encoding: string): AsyncGenerator<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]();
  try {
    const first = await pieces.next();
    // An answer without a body has nothing to decode.
    if (first.done) return;
    const decoder = DECODERS[encoding]!(first.value);
    const encoded = Readable.from(resumed([first.value], pieces));
    // The decoder passes its errors to its readers.
    pipeline(encoded, decoder).catch(() => {});
    try {
      yield* decoder;
    } catch (error) {
      throw explained(error, encoding);
    } finally {
      decoder.destroy();
      encoded.destroy();
    }
  } finally {
    await pieces.return?.();
  }
}

/** Explains an error of the decoder; errors of the engine's connection stay as they are. */
function explained(error: unknown, encoding: string): unknown {
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (!/^(?:Z_|ERR_|ZSTD)/.test(code)) return error;
  return new EngineGone(`the engine's answer broke off, or is not ${encoding} as it says: ${message}`);
}

const LF = 10;
const CR = 13;
/** The byte order mark that may stand before the first event, in UTF-8. */
const MARK = Buffer.from('\ufeff');
const NOTHING = Buffer.alloc(0);

/** Matches the beginning of an event stream of any content type: JSON, HTML and prose do not begin like this. */
const EVENTS = /^(?:\ufeff)?(?:(?:data|event|id|retry)?:|\s*\n(?:data|event|id|retry)?:)/;

/**
 * Returns an answer whose event stream all later readers can read. Readers in clients know lines that end with `\n` or
 * `\r\n`, and few know a byte order mark (HTML Standard, 9.2.6, has all of these). A stream to which its engine gives
 * another content type, or none, gets that of a stream, so that later readers look for its errors and its end.
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
 * Removes the byte order mark before an event stream, and writes `\n` if its lines end with `\r` alone. The first line
 * shows whether they do: any other stream passes unchanged from there on.
 */
export class EventLines {
  #state: 'beginning' | 'first line' | 'as it is' | 'returns' = 'beginning';
  /** Bytes whose meaning depends on the bytes after them: a part of the mark, or the first carriage return. */
  #held: Uint8Array = NOTHING;
  /** Whether the last byte was a carriage return, so that a line feed after it ends no further line. */
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
