import type { EngineAnswer } from '../../engine/client/types.ts';
import {
  type AnswerHead,
  dialectOf,
  type EngineRequest,
  isEventStream,
  passableHeaders,
} from '../../protocol/index.ts';

/** Matches headers that concern the engine's own connection only, or say who may read its answer in a browser. */
const NOT_PASSED_ON = /^(?:content-length|date|server|set-cookie|access-control-.*)$/;

/** Returns the part of an answer's head that is passed on. */
export function headOf(answer: EngineAnswer, { path }: EngineRequest): AnswerHead {
  const headers = Object.fromEntries(
    Object.entries(passableHeaders(answer.headers)).filter(([name]) => !NOT_PASSED_ON.test(name)),
  );
  const dialect = isEventStream(headers) ? dialectOf(path) : 'openai';
  return { status: answer.status, headers, ...(dialect === 'openai' ? {} : { dialect }) };
}
