import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { AnswerBody, EngineAnswer } from '../../engine/client/types.ts';
import {
  type AnswerHead,
  dialectOf,
  type EngineRequest,
  isEventStream,
  passableHeaders,
} from '../../protocol/index.ts';

/** Headers that concern the engine's own connection only, or say who may read its answer in a browser. */
const NOT_PASSED_ON = /^(?:content-length|date|server|set-cookie|access-control-.*)$/;

const DECODERS: Record<string, () => Transform> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/** The body as text is made of it: engines are asked for plain bodies, and some compress all the same. */
export function decoded({ headers, body }: EngineAnswer): AnswerBody {
  const decoder = DECODERS[headers['content-encoding']?.toLowerCase() ?? 'identity'];
  // An error on either side ends both.
  return decoder ? Readable.from(body).compose(decoder()) : body;
}

/** The head of an answer whose body was decoded. */
export function decodedHeadOf(answer: EngineAnswer, request: EngineRequest): AnswerHead {
  const { headers, ...head } = headOf(answer, request);
  const { 'content-encoding': encoding, ...rest } = headers;
  return { ...head, headers: encoding && DECODERS[encoding.toLowerCase()] === undefined ? headers : rest };
}

/** The part of an answer's head that is passed on. */
export function headOf(answer: EngineAnswer, { path }: EngineRequest): AnswerHead {
  const headers = Object.fromEntries(
    Object.entries(passableHeaders(answer.headers)).filter(([name]) => !NOT_PASSED_ON.test(name)),
  );
  const dialect = isEventStream(headers) ? dialectOf(path) : 'openai';
  return { status: answer.status, headers, ...(dialect === 'openai' ? {} : { dialect }) };
}
