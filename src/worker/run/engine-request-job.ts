import { isUtf8 } from 'node:buffer';
import { type EngineAnswer, readPieces } from '../../engine/client/types.ts';
import {
  EngineRequest,
  type EngineRequestResult,
  engineRoute,
  eventData,
  hasChoices,
  isEventStream,
  jsonOrText,
  parseValue,
  type RelayedResult,
  splitEvents,
} from '../../protocol/index.ts';
import { type AnswerStream, RECORD_BYTES } from '../answers/answer-stream.ts';
import { EventPipeline, Events } from '../answers/events.ts';
import { finalFailure } from '../failure.ts';
import { readWhole } from '../files/transfer.ts';
import { assembledAnswer } from './assembled.ts';
import { type Attempt, parseAnswer } from './attempt.ts';
import { CompletionWatch, untilEnd } from './completion-watch.ts';
import { atWholeCharacter } from './continued.ts';
import {
  answerTooLarge,
  cutShort,
  failureInside,
  failureOfEngine,
  gaveUp,
  redirected,
} from './engine-failures.ts';
import { choicesOf, headOf, relayEvents, roomIn, transformsOf } from './relay-events.ts';
import { send, sendMovable } from './send-request.ts';
import { generatedTokens, usageInBody } from './usage.ts';
import { checkWhole, isJudged } from './whole-answer.ts';

/** The content type of JSON as vLLM writes it. */
const JSON_TYPE = 'application/json';

/** A reader that takes a copy of an answer as it comes. */
export type AnswerCopy = Pick<AnswerStream, 'head' | 'write' | 'end'>;

/**
 * Requests any route of the engine, and stores its whole answer as the result. After a throw the replay buffer is still
 * open: the caller breaks it with the failure.
 * @param replay also takes the answer, as it comes; it never makes the engine wait
 */
export async function runEngineRequest(
  attempt: Attempt,
  replay: AnswerCopy | null = null,
): Promise<EngineRequestResult> {
  const request = requestOf(attempt);
  const assembled = await assembledAnswer(attempt, request);
  if (assembled !== null) {
    replay?.head({ status: 200, headers: { 'content-type': JSON_TYPE } });
    replay?.write(Buffer.from(JSON.stringify(assembled)));
    replay?.end();
    return resultOf(attempt, { status: 200, content_type: JSON_TYPE, body: assembled });
  }
  const { answer, added } = await send(attempt, request);
  const isEvents = answer.status < 300 && isEventStream(answer.headers);
  const contentType = answer.headers['content-type'];
  // The whole answer is stored anyway, so no event passes in parts.
  const watch = new CompletionWatch(request.path, Number.POSITIVE_INFINITY);
  if (isEvents) {
    attempt.counting(() => watch.estimate);
    replay?.head(headOf(answer, request));
  }
  const replayed = isEvents && replay ? eventsToReplay(request, watch, replay, added) : null;
  const arrived = (piece: Uint8Array) => {
    if (!isEvents) return;
    attempt.streamed();
    const events = watch.see(piece);
    if (events !== null) replayed?.write(events);
  };
  const bytes = await readWhole(untilEnd(answer.body, watch), answerTooLarge, arrived);
  if (answer.status >= 400) throw await failureOfEngine(attempt, answer.status, errorIn(answer, bytes));
  if (answer.status >= 300) throw redirected(answer);
  const rest = isEvents ? await checkEvents(attempt, request, watch) : null;
  if (!isEvents) await checkBody(attempt, request, answer, bytes);
  const body = keptBody(isEvents ? asRead(bytes, added) : bytes, contentType);
  attempt.generated(generatedTokens(body.body));
  if (!isEvents) {
    replay?.head(headOf(answer, request));
    replay?.write(bytes);
  }
  replayed?.end(rest);
  replay?.end();
  return resultOf(attempt, { status: answer.status, content_type: contentType ?? null, ...body });
}

function resultOf(attempt: Attempt, response: EngineRequestResult['response']): EngineRequestResult {
  return { status: 'success', job_type: 'engine_request', processed_at: attempt.timestamp(), response };
}

/** Returns the body for a result: JSON or text, else its bytes. */
function keptBody(bytes: Buffer, contentType: string | undefined): { body: unknown; body_base64?: string } {
  if (isUtf8(bytes)) return { body: parseAnswer(bytes.toString(), contentType) };
  return { body: null, body_base64: bytes.toString('base64') };
}

/**
 * Copies an answer to the replay buffer event by event. The copy of a generation that the engine gave up, or ended with
 * an error, breaks off before that.
 */
function eventsToReplay(
  request: EngineRequest,
  watch: CompletionWatch,
  replay: AnswerCopy,
  isAdded: boolean,
): { write(events: Events): void; end(rest: Events | null): void } {
  const pipeline = new EventPipeline(transformsOf(isAdded), ({ bytes }) => replay.write(bytes));
  return {
    write: (events) => {
      if (watch.isGivenUp && hasChoices(request.path)) throw gaveUp();
      if (watch.failure === null) pipeline.push(events);
    },
    end: (rest) => {
      if (rest !== null) pipeline.push(rest);
      pipeline.end(false);
    },
  };
}

/** Returns a whole stream as its reader gets it. @param isAdded whether its caller did not ask for its usage */
function asRead(bytes: Buffer, isAdded: boolean): Buffer {
  const transforms = transformsOf(isAdded);
  if (transforms.length === 0) return bytes;
  const kept: Uint8Array[] = [];
  const pipeline = new EventPipeline(transforms, (events) => kept.push(events.bytes));
  pipeline.push(Events.ofBytes(bytes));
  pipeline.end(false);
  return Buffer.concat(kept);
}

/**
 * Requests any route of the engine, and gives its answer to the relay as it comes. After a throw the stream is still
 * open: the caller breaks it with the failure.
 */
export async function relayEngineRequest(attempt: Attempt, stream: AnswerStream): Promise<RelayedResult> {
  const asked = requestOf(attempt);
  const request = asked.continues ? await atWholeCharacter(attempt, asked) : asked;
  const answered = await sendMovable(attempt, request);
  const { answer } = answered;
  if (answer.status < 300 && isEventStream(answer.headers)) {
    await relayEvents(attempt, request, answered, stream);
  } else await relayWhole(attempt, request, answer, stream);
  stream.end();
  return {
    status: 'success',
    job_type: 'engine_request',
    processed_at: attempt.timestamp(),
    answer_bytes: stream.size,
    http_status: answer.status,
  };
}

function requestOf(attempt: Attempt): EngineRequest {
  const parsed = parseValue(EngineRequest, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', `payload.${parsed.message}`);
  const { method, path, body, body_base64 } = parsed.value;
  if (body !== undefined && body_base64 !== undefined)
    throw finalFailure('invalid_request', 'payload: expected body or body_base64, not both');
  if (!attempt.routes.has(method, path)) {
    throw finalFailure(
      'invalid_request',
      `payload.path: ${method} ${path} is no inference route; this worker asks its engine for nothing else`,
    );
  }
  return parsed.value;
}

/**
 * Relays a body in one piece. JSON is held until it is whole, and an engine's own failure until it is clear that the
 * engine lives: another attempt is then possible without the caller noticing.
 */
async function relayWhole(
  attempt: Attempt,
  request: EngineRequest,
  answer: EngineAnswer,
  stream: AnswerStream,
): Promise<void> {
  if (!isJudged(request.path, answer.headers) && answer.status < 500) {
    stream.head(headOf(answer, request));
    await readPieces(answer.body, (piece) => {
      stream.write(piece);
      return roomIn(stream);
    });
    if (stream.size === 0 && answer.status === 200)
      await checkWhole(attempt, request.path, answer.headers, Buffer.alloc(0));
    return;
  }
  const bytes = await readWhole(answer.body, answerTooLarge);
  if (answer.status >= 500) {
    const failure = await failureOfEngine(attempt, answer.status, errorIn(answer, bytes));
    if (failure.failure.code === 'engine_died') throw failure;
  }
  if (answer.status < 400) {
    await checkBody(attempt, request, answer, bytes);
    if (hasChoices(request.path)) attempt.generated(generatedTokens(jsonOrText(bytes.toString())));
  }
  stream.head(headOf(answer, request));
  for (let at = 0; at < bytes.byteLength; at += RECORD_BYTES) {
    if (at > 0 && (await roomIn(stream)) === false) return;
    stream.write(bytes.subarray(at, at + RECORD_BYTES));
  }
}

/**
 * Checks a stream that has ended. Returns its last event if that lacks its end.
 * @throws JobFailure when the stream is not whole
 */
async function checkEvents(
  attempt: Attempt,
  request: EngineRequest,
  watch: CompletionWatch,
): Promise<Events | null> {
  const rest = watch.end();
  const isCompletion = hasChoices(request.path);
  attempt.used(watch.usage ?? (isCompletion ? watch.estimate : null));
  if (isCompletion && watch.isGivenUp) throw gaveUp();
  if (watch.failure !== null) throw await failureInside(attempt, watch.failure);
  if (engineRoute(request.path)?.closes && !watch.isWhole(() => choicesOf(request))) throw cutShort();
  return rest;
}

/** Checks an answer in one piece. @throws JobFailure when it is an error, or no answer at all */
async function checkBody(
  attempt: Attempt,
  { path }: EngineRequest,
  { status, headers }: EngineAnswer,
  bytes: Buffer,
): Promise<void> {
  attempt.used(usageInBody(bytes));
  if (status < 300) await checkWhole(attempt, path, headers, bytes);
}

/** Returns the engine's own error, which some engines label as a stream of one event. */
function errorIn({ headers }: EngineAnswer, bytes: Buffer): unknown {
  const text = bytes.toString();
  return jsonOrText((isEventStream(headers) && eventData(splitEvents(text.trimStart())[0] ?? '')) || text);
}
