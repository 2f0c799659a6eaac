import { readPieces } from '../../engine/client/types.ts';
import { choicesAsked, type EngineRequest, hasEnd, jsonOrText } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import type { Events } from '../answers/event-reader.ts';
import { headOf } from './answer-head.ts';
import type { Attempt } from './attempt.ts';
import { CompletionWatch, type StreamFailure, untilEnd } from './completion-watch.ts';
import { wholeUsage } from './continued.ts';
import { cutShort, failureInside, gaveUp } from './engine-failures.ts';
import { MOVING_HELD_BYTES, PassedEvents } from './passed-events.ts';
import { type Answered, COMPLETIONS } from './send-request.ts';

/** A sink that takes the events of an answer. */
export type EventSink = Pick<
  AnswerStream,
  'head' | 'write' | 'tell' | 'moves' | 'hurry' | 'end' | 'room' | 'size' | 'isFull' | 'isMovable' | 'state'
>;

/**
 * Relays an answer event by event. A generation that the engine gave up is cut off before it looks finished; the
 * engine's own error is passed on as it is, unless another attempt can still be made without the caller noticing.
 * @throws JobFailure also where the caller has the engine's own error, and the stream has ended with it
 */
export async function relayEvents(
  attempt: Attempt,
  request: EngineRequest,
  { answer, added, moving }: Answered,
  stream: EventSink,
): Promise<void> {
  const movable = typeof moving === 'string' ? null : moving;
  const watch = new CompletionWatch(request.path, movable === null ? undefined : MOVING_HELD_BYTES);
  const from = movable?.from ?? null;
  attempt.counting(() => wholeUsage(watch.estimate, request, from));
  stream.head({ ...headOf(answer, request), ...(typeof moving === 'string' && { stays: moving }) });
  const passed = new PassedEvents(stream, added, movable);
  const isCompletion = COMPLETIONS.test(request.path);
  const pass = (events: Events) => {
    passed.write(events, watch.isMarked);
    if (watch.failure !== null) stream.hurry();
    return roomIn(stream);
  };
  const passUnlessDead = async (events: Events, error: StreamFailure) => {
    const failure = await failureInside(attempt, error);
    if (failure.failure.code === 'engine_died') throw failure;
    if (error.isRaised) return pass(events);
    // The caller would take the event for an answer, so the relay reports the error in the form of the API.
    passed.write(before(events, error.at), watch.isMarked);
    throw failure;
  };
  await readPieces(untilEnd(answer.body, watch), (piece) => {
    if (stream.size === 0) attempt.streamed();
    const events = watch.see(piece);
    if (events === null) return roomIn(stream);
    if (watch.isGivenUp && isCompletion) throw gaveUp();
    const { failure } = watch;
    const mayGoOn = stream.size === 0 || stream.isMovable;
    return failure !== null && (mayGoOn || !failure.isRaised)
      ? passUnlessDead(events, failure)
      : pass(events);
  });
  const rest = watch.end();
  const isCut = hasEnd(request.path) && !watch.isWhole(() => choicesOf(request));
  const isBroken =
    watch.failure === null ? isCut || (isCompletion && watch.isGivenUp) : !watch.failure.isRaised;
  if (isBroken) passed.breakOff();
  else passed.end(rest, watch.isMarked);
  attempt.used(wholeUsage(watch.usage ?? (isCompletion ? watch.estimate : null), request, from));
  if (watch.failure !== null) {
    if (watch.failure.isRaised) stream.end();
    throw await failureInside(attempt, watch.failure);
  }
  if (isCompletion && watch.isGivenUp) throw gaveUp();
  if (isCut) throw cutShort();
}

/** Returns the part of some events before the position of one of them. */
function before({ bytes, text, isWhole }: Events, at: number): Events {
  return { bytes: bytes.subarray(0, at), text: text.slice(0, at), isWhole };
}

/** Returns how many choices a request asks for. */
export function choicesOf({ body }: EngineRequest): number {
  return choicesAsked(body === undefined ? null : jsonOrText(Buffer.from(body).toString()));
}

/** Waits until the stream takes more; false: it wants nothing more. */
export function roomIn(
  stream: Pick<EventSink, 'isFull' | 'room' | 'state'>,
): false | undefined | Promise<false | undefined> {
  if (stream.isFull) return stream.room().then(() => (stream.state === 'open' ? undefined : false));
  return stream.state === 'open' ? undefined : false;
}
