import { readPieces } from '../../engine/client/types.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import { headOf } from './answer-head.ts';
import type { Attempt } from './attempt.ts';
import { CompletionWatch } from './completion-watch.ts';
import { wholeUsage } from './continued.ts';
import { cutShort, failureInside, gaveUp } from './engine-failures.ts';
import { PassedEvents } from './passed-events.ts';
import { type Answered, COMPLETIONS } from './send-request.ts';

/** Routes whose streams have a closing event. */
export const CLOSED_STREAMS =
  /^\/(?:v1\/(?:(?:chat\/)?completions|messages|responses)|inference\/v1\/generate)(?:\?|$)/;

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
  const watch = new CompletionWatch();
  const movable = typeof moving === 'string' ? null : moving;
  const from = movable?.from ?? null;
  attempt.counting(() => wholeUsage(watch.estimate, request, from));
  stream.head({ ...headOf(answer, request), ...(typeof moving === 'string' && { stays: moving }) });
  const events = new PassedEvents(stream, added, movable);
  const isCompletion = COMPLETIONS.test(request.path);
  let isMarked = false;
  const pass = (piece: Uint8Array) => {
    events.write(piece, isMarked);
    if (watch.error !== null) stream.hurry();
    return roomIn(stream);
  };
  const passUnlessDead = async (piece: Uint8Array, error: string) => {
    const failure = await failureInside(attempt, error);
    if (failure.failure.code === 'engine_died') throw failure;
    return pass(piece);
  };
  await readPieces(answer.body, (piece) => {
    if (stream.size === 0) attempt.streamed();
    isMarked = watch.see(piece);
    if (watch.isAborted && isCompletion) throw gaveUp();
    const { error } = watch;
    const mayGoOn = stream.size === 0 || stream.isMovable;
    return error !== null && mayGoOn ? passUnlessDead(piece, error) : pass(piece);
  });
  events.end();
  attempt.used(wholeUsage(watch.usage ?? (isCompletion ? watch.estimate : null), request, from));
  if (watch.error !== null) {
    stream.end();
    throw await failureInside(attempt, watch.error);
  }
  if (!watch.isDone && CLOSED_STREAMS.test(request.path)) throw cutShort();
}

/** When the stream takes more; false: it wants nothing more. */
export function roomIn(
  stream: Pick<EventSink, 'isFull' | 'room' | 'state'>,
): false | undefined | Promise<false | undefined> {
  if (stream.isFull) return stream.room().then(() => (stream.state === 'open' ? undefined : false));
  return stream.state === 'open' ? undefined : false;
}
