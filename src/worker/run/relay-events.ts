import { type EngineAnswer, readPieces } from '../../engine/client/types.ts';
import {
  type AnswerHead,
  bounds,
  choicesAsked,
  dialectOf,
  type EngineRequest,
  engineRoute,
  hasChoices,
  isEventStream,
  jsonOrText,
  passableHeaders,
} from '../../protocol/index.ts';
import { AddedUsage } from '../answers/added-usage.ts';
import type { AnswerLog } from '../answers/answer-log.ts';
import { EventPipeline, type Events, type EventTransform } from '../answers/events.ts';
import { StopHold } from '../answers/stop-hold.ts';
import { continuesFrom, TokenIds } from '../answers/token-ids.ts';
import type { Attempt } from './attempt.ts';
import { CompletionWatch, type StreamFailure, untilEnd } from './completion-watch.ts';
import { NotContinued, wholeUsage } from './continued.ts';
import { cutShort, failureInside, gaveUp } from './engine-failures.ts';
import type { Answered, Moving } from './send-request.ts';

/** Matches headers that concern only the engine's own connection, or say who may read its answer in a browser. */
const NOT_PASSED_ON = /^(?:content-length|date|server|set-cookie|access-control-.*)$/;

/** Returns the part of an answer's head that is passed on. */
export function headOf(answer: EngineAnswer, { path }: EngineRequest): AnswerHead {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(passableHeaders(answer.headers)))
    if (!NOT_PASSED_ON.test(name)) headers[name] = value;
  const dialect = isEventStream(headers) ? dialectOf(path) : 'openai';
  return { status: answer.status, headers, ...(dialect === 'openai' ? {} : { dialect }) };
}

/**
 * The size of an event with the ids of the largest prompt: a token has at least one byte, and its id up to seven
 * digits.
 */
const MOVING_HELD_BYTES = 8 * bounds.MOVING_BODY_BYTES;

/**
 * Returns the transforms that the engine's events pass through on their way to a reader, who gets nothing that only the
 * worker asked for.
 * @param isCounted whether the engine was asked for a usage that the caller did not ask for
 * @param movable left out: the answer is not moved to another worker, as a stored job's never is
 */
export function transformsOf(
  isCounted: boolean,
  movable: { moving: Moving; log: AnswerLog } | null = null,
): EventTransform[] {
  const stops = movable && StopHold.of(movable.moving.plan);
  return [
    ...(isCounted ? [new AddedUsage()] : []),
    ...(stops === null ? [] : [stops]),
    ...(movable === null ? [] : [new TokenReports(movable.log, movable.moving, stops)]),
  ];
}

/** Reports the tokens of events before they pass, and removes the ids that the caller did not ask for. */
class TokenReports implements EventTransform {
  readonly #log: AnswerLog;
  readonly #moving: Moving;
  readonly #stops: StopHold | null;
  readonly #ids: TokenIds;
  #hasBegun = false;

  constructor(log: AnswerLog, moving: Moving, stops: StopHold | null) {
    this.#log = log;
    this.#moving = moving;
    this.#stops = stops;
    this.#ids = new TokenIds(moving.isAsked, moving.prompt);
  }

  /** Reports and passes events. @throws JobFailure */
  push(given: Events): Events | null {
    const { events, ids, mayBeCut, stage } = this.#ids.read(given);
    if (!this.#hasBegun) this.#begin();
    this.#log.report(this.#stops?.stays ? null : ids, stage, mayBeCut);
    return events;
  }

  end(): null {
    return null;
  }

  #begin(): void {
    this.#hasBegun = true;
    const { beginning } = this.#ids;
    const { plan, from } = this.#moving;
    if (from !== null && (beginning === null || !continuesFrom(beginning, from))) {
      const message = 'the engine does not go on from token ids: the answer cannot be continued here';
      throw new NotContinued(message);
    }
    if (beginning === null) return;
    const { identity, promptIds } = beginning;
    this.#log.moves({ plan, identity, prompt_tokens: promptIds.length }, promptIds);
  }
}

/**
 * Relays an answer event by event. A generation that the engine gave up is cut off before it looks finished; the
 * engine's own error is passed on unchanged, unless another attempt is possible without the caller noticing.
 * @throws JobFailure also if the caller has the engine's own error, and the stream has ended with it
 */
export async function relayEvents(
  attempt: Attempt,
  request: EngineRequest,
  { answer, added, moving }: Answered,
  log: AnswerLog,
): Promise<void> {
  const movable = typeof moving === 'string' ? null : moving;
  const watch = new CompletionWatch(request.path, movable === null ? undefined : MOVING_HELD_BYTES);
  const from = movable?.from ?? null;
  attempt.counting(() => wholeUsage(watch.estimate, request, from));
  log.head({ ...headOf(answer, request), ...(typeof moving === 'string' && { stays: moving }) });
  const transforms = transformsOf(added, movable && { moving: movable, log });
  const pipeline = new EventPipeline(transforms, (events) => log.writeEvents(events));
  const isCompletion = hasChoices(request.path);
  const pass = (events: Events) => {
    pipeline.push(events);
    if (watch.failure !== null) log.hurry();
    return roomIn(log);
  };
  const passUnlessDead = async (events: Events, error: StreamFailure) => {
    const failure = await failureInside(attempt, error);
    if (failure.failure.code === 'engine_died') throw failure;
    if (error.isRaised) return pass(events);
    // The caller would take the event for an answer, so the relay reports the error in the API's form.
    if (error.at > 0) pipeline.push(events.before(error.at));
    throw failure;
  };
  await readPieces(untilEnd(answer.body, watch), (piece) => {
    if (log.size === 0) attempt.streamed();
    const events = watch.see(piece);
    if (events === null) return roomIn(log);
    if (watch.isGivenUp && isCompletion) throw gaveUp();
    const { failure } = watch;
    const mayGoOn = log.size === 0 || log.isMovable;
    return failure !== null && (mayGoOn || !failure.isRaised)
      ? passUnlessDead(events, failure)
      : pass(events);
  });
  const rest = watch.end();
  const isCut = engineRoute(request.path)?.closes === true && !watch.isWhole(() => choicesOf(request));
  const isBroken =
    watch.failure === null ? isCut || (isCompletion && watch.isGivenUp) : !watch.failure.isRaised;
  if (rest !== null && !isBroken) pipeline.push(rest);
  pipeline.end(isBroken);
  attempt.used(wholeUsage(watch.usage ?? (isCompletion ? watch.estimate : null), request, from));
  if (watch.failure !== null) {
    if (watch.failure.isRaised) log.end();
    throw await failureInside(attempt, watch.failure);
  }
  if (isCompletion && watch.isGivenUp) throw gaveUp();
  if (isCut) throw cutShort();
}

/** Returns how many choices a request asks for. */
export function choicesOf({ body }: EngineRequest): number {
  return choicesAsked(body === undefined ? null : jsonOrText(Buffer.from(body).toString()));
}

/** Waits until the log accepts more; false: it wants nothing more. */
export function roomIn(log: AnswerLog): false | undefined | Promise<false | undefined> {
  if (log.isFull) return log.room().then(() => (log.isOpen ? undefined : false));
  return log.isOpen ? undefined : false;
}
