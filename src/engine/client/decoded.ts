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
 * Decompresses the body of an answer. The worker asks engines for plain bodies, but some, or a proxy in front of them,
 * compress all the same. Tokens are counted, events told apart and results kept of plain bodies only. A body in an
 * encoding that is unknown here stays as it is.
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
    // Readers of the decoder get its errors.
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
