import { readPieces } from '../../engine/client/types.ts';
import { choicesAsked, type EngineRequest, hasEnd, jsonOrText } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import { headOf } from './answer-head.ts';
import type { Attempt } from './attempt.ts';
import { CompletionWatch, type StreamFailure, untilEnd } from './completion-watch.ts';
import { wholeUsage } from './continued.ts';
import { cutShort, failureInside, gaveUp } from './engine-failures.ts';
import { PassedEvents } from './passed-events.ts';
import { type Answered, COMPLETIONS } from './send-request.ts';

/** What takes the events of an answer. */
export type EventSink = Pick<
  AnswerStream,
  'head' | 'write' | 'tell' | 'moves' | 'hurry' | 'end' | 'room' | 'size' | 'isFull' | 'isMovable' | 'state'
>;

/**
 * Event by event. A generation that the engine gave up is cut off before it looks finished; its own error is
 * passed on as it is, unless another attempt can still be made without the caller noticing.
 * @throws JobFailure also where the caller has the engine's own error, and the stream has ended with it
 */
export async function relayEvents(
  attempt: Attempt,
  request: EngineRequest,
  { answer, added, moving }: Answered,
  stream: EventSink,
): Promise<void> {
  const watch = new CompletionWatch(request.path);
  const movable = typeof moving === 'string' ? null : moving;
  const from = movable?.from ?? null;
  attempt.counting(() => wholeUsage(watch.estimate, request, from));
  stream.head({ ...headOf(answer, request), ...(typeof moving === 'string' && { stays: moving }) });
  const events = new PassedEvents(stream, added, movable);
  const isCompletion = COMPLETIONS.test(request.path);
  let isMarked = false;
  const pass = (piece: Uint8Array) => {
    events.write(piece, isMarked);
    if (watch.failure !== null) stream.hurry();
    return roomIn(stream);
  };
  const passUnlessDead = async (piece: Uint8Array, error: StreamFailure) => {
    const failure = await failureInside(attempt, error);
    if (failure.failure.code === 'engine_died') throw failure;
    if (error.isRaised) return pass(piece);
    // The caller would take the event for an answer: the relay tells the error in the form of the API.
    events.write(piece.subarray(0, error.at), isMarked);
    throw failure;
  };
  await readPieces(untilEnd(answer.body, watch), (piece) => {
    if (stream.size === 0) attempt.streamed();
    isMarked = watch.see(piece);
    if (watch.isGivenUp && isCompletion) throw gaveUp();
    const { failure } = watch;
    const mayGoOn = stream.size === 0 || stream.isMovable;
    return failure !== null && (mayGoOn || !failure.isRaised) ? passUnlessDead(piece, failure) : pass(piece);
  });
  watch.end();
  events.end();
  attempt.used(wholeUsage(watch.usage ?? (isCompletion ? watch.estimate : null), request, from));
  if (watch.failure !== null) {
    if (watch.failure.isRaised) stream.end();
    throw await failureInside(attempt, watch.failure);
  }
  if (isCompletion && watch.isGivenUp) throw gaveUp();
  if (hasEnd(request.path) && !watch.isWhole(() => choicesOf(request))) throw cutShort();
}

/** Returns how many choices a request asks for. */
export function choicesOf({ body }: EngineRequest): number {
  return choicesAsked(body === undefined ? null : jsonOrText(Buffer.from(body).toString()));
}

/** When the stream takes more; false: it wants nothing more. */
export function roomIn(
  stream: Pick<EventSink, 'isFull' | 'room' | 'state'>,
): false | undefined | Promise<false | undefined> {
  if (stream.isFull) return stream.room().then(() => (stream.state === 'open' ? undefined : false));
  return stream.state === 'open' ? undefined : false;
}
