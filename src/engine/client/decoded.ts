import { Readable, type Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import { resumed } from './resumed.ts';
import { type AnswerBody, type EngineAnswer, EngineGone } from './types.ts';

/** Encodings of an answer's body, and what decodes them. Of a body the first piece is known. */
const DECODERS: Readonly<Record<string, (first: Uint8Array) => Transform>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  // Some servers send it without the head that zlib gives it.
  deflate: (first) => (((first[0] ?? 0) & 0x0f) === 8 ? createInflate() : createInflateRaw()),
  br: () => createBrotliDecompress(),
  zstd: () => createZstdDecompress(),
};

/**
 * The answer as the engine made it before it compressed it: engines are asked for plain bodies, and some, or a proxy in
 * front of them, compress all the same. Tokens are counted, events told apart and results kept of plain bodies only. A
 * body in an encoding that is unknown here stays as it is.
 */
export function decodedAnswer(answer: EngineAnswer): EngineAnswer {
  const { 'content-encoding': encoding = '', 'content-length': length, ...headers } = answer.headers;
  const names = encoding.toLowerCase().split(/\s*,\s*/);
  const encodings = names.filter((name) => name !== '' && name !== 'identity');
  if (encodings.length === 0 || encodings.some((name) => !Object.hasOwn(DECODERS, name))) return answer;
  // The last one was put on last.
  return { ...answer, headers, body: encodings.reduceRight(decodedBody, answer.body) };
}

function decodedBody(body: AnswerBody, encoding: string): AnswerBody {
  return { [Symbol.asyncIterator]: () => decodedPieces(body, encoding) };
}

/** Ending it early closes the socket to the engine, as of any body. */
async function* decodedPieces(body: AnswerBody, encoding: string): AsyncGenerator<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]();
  try {
    const first = await pieces.next();
    // An answer without a body has nothing that ends.
    if (first.done) return;
    const decoder = DECODERS[encoding]!(first.value);
    const encoded = Readable.from(resumed([first.value], pieces));
    // The decoder's readers are told of its errors.
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

/** What the engine's connection fails with stays as it is. */
function explained(error: unknown, encoding: string): unknown {
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (!/^(?:Z_|ERR_|ZSTD)/.test(code)) return error;
  return new EngineGone(`the engine's answer broke off, or is not ${encoding} as it says: ${message}`);
}
