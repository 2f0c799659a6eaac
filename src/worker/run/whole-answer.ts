import type { EngineAnswer, EngineCall } from '../../engine/client/types.ts';
import {
  engineAnswer,
  engineJson,
  engineRoute,
  hasChoices,
  isPlainBody,
  jsonOrText,
  noAnswer,
  readWholeAnswer,
  routeLike,
} from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import { readWhole } from '../files/transfer.ts';
import type { Attempt } from './attempt.ts';
import { answerTooLarge, failureInside, failureOfEngine, gaveUp } from './engine-failures.ts';
import { usageOf } from './usage.ts';

type Posted = Pick<EngineCall, 'body' | 'contentType'>;

/** A body that the engine returned with a status under 400. */
interface EngineBody {
  bytes: Buffer;
  headers: EngineAnswer['headers'];
}

/**
 * Posts to a route of the engine and reads its whole answer.
 * @throws JobFailure for an error of the engine, even under a status of success, and for a redirect, which the worker
 * does not follow
 */
export async function askEngine(attempt: Attempt, path: string, body: Posted): Promise<EngineBody> {
  const answer = await post(attempt, path, body);
  await checkWhole(attempt, path, answer.headers, answer.bytes);
  return answer;
}

/**
 * Posts JSON to a route of the engine and reads its whole answer as JSON.
 * @throws JobFailure as `askEngine`, and also if the answer is not finished
 */
export async function askEngineJson(attempt: Attempt, path: string, body: string): Promise<unknown> {
  const { bytes, headers } = await post(attempt, path, { body });
  const answer = engineAnswer(bytes.toString());
  attempt.used(usageOf(answer));
  await checkWhole(attempt, path, headers, bytes);
  return answer;
}

async function post(attempt: Attempt, path: string, body: Posted): Promise<EngineBody> {
  attempt.requested();
  const answer = await attempt.engine.request({
    method: 'POST',
    path,
    ...body,
    requestId: attempt.jobId,
    signal: attempt.signal,
  });
  const bytes = await readWhole(answer.body, answerTooLarge);
  if (answer.status >= 400) throw await failureOfEngine(attempt, answer.status, jsonOrText(bytes.toString()));
  if (answer.status >= 300)
    throw finalFailure('engine_refused', `the engine redirects (HTTP ${answer.status})`);
  return { bytes, headers: answer.headers };
}

/** Matches the words that report a failure in an answer in one piece. */
const SAYS_MORE =
  /error"|"failed"|_reason"\s*:\s*"(?:[a-z]+_error|error|abort|recover_stop|cancelled|timeout)"/i;

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\b/i;
/** Matches content types with which some engines answer instead of JSON, if they are asked to. */
const BYTES = /^(?:application\/octet-stream|multipart\/|audio\/|image\/|video\/)/i;
const PAGE = /^\s*<(?:!doctype\s+html|html)\b/i;

type Headers = EngineAnswer['headers'];

/** Tells whether the worker examines an answer in one piece before it passes any of it on. */
export function isJudged(path: string, headers: Headers): boolean {
  const type = typeOf(headers);
  return type !== null && (isJson(path, type) || /^text\/html\b/i.test(type));
}

/** Returns the content type, empty if none is named; null: the body has an encoding that this worker does not know. */
function typeOf(headers: Headers): string | null {
  return isPlainBody(headers) ? (headers['content-type'] ?? '') : null;
}

function isJson(path: string, type: string): boolean {
  return JSON_TYPE.test(type) || ((engineRoute(path)?.list ?? null) !== null && !BYTES.test(type));
}

/**
 * Examines an answer in one piece that came with a status of success.
 * @throws JobFailure when it is an error, or no answer at all
 */
export async function checkWhole(
  attempt: Attempt,
  path: string,
  headers: Headers,
  bytes: Uint8Array,
): Promise<void> {
  const type = typeOf(headers);
  if (type === null) return;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const isPage = PAGE.test(text.slice(0, 1000)) && !BYTES.test(type);
  // An answer of text may be empty: silence has none. That holds for routes that an operator has added, too.
  const isMissing = text === '' && routeLike(path)?.answers !== 'text';
  if (isPage || isMissing) throw await none(attempt, bytes);
  if (!isJson(path, type)) return;
  const list = engineRoute(path)?.list ?? null;
  const isUsual = hasEnds(text) && (list === null || text.includes(`"${list}"`)) && !SAYS_MORE.test(text);
  // Most answers show no sign of a failure, and are not parsed.
  if (isUsual) return;
  const answer = engineJson(Buffer.from(bytes).toString());
  if (answer === null) throw await none(attempt, bytes);
  const { failed, isGivenUp } = readWholeAnswer(path, answer.value);
  if (isGivenUp && hasChoices(path)) throw gaveUp();
  if (failed !== null) throw await failureInside(attempt, failed);
}

/** Tells whether a text begins an object or a list and ends with its bracket. */
function hasEnds(text: string): boolean {
  const [first, last] = [text.trimStart()[0], text.trimEnd().at(-1)];
  return (first === '{' && last === '}') || (first === '[' && last === ']');
}

function none(attempt: Attempt, bytes: Uint8Array): Promise<Error> {
  return failureInside(attempt, noAnswer(Buffer.from(bytes.subarray(0, 1000)).toString()));
}
