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
import type { AnswerStream } from '../answers/answer-stream.ts';
import { characters, type Events } from '../answers/events.ts';
import { StopHold } from '../answers/stop-hold.ts';
import { continuesFrom, TokenIds } from '../answers/token-ids.ts';
import type { Moving } from './added-fields.ts';
import type { Attempt } from './attempt.ts';
import { CompletionWatch, type StreamFailure, untilEnd } from './completion-watch.ts';
import { NotContinued, wholeUsage } from './continued.ts';
import { cutShort, failureInside, gaveUp } from './engine-failures.ts';
import type { Answered } from './send-request.ts';

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

/** The size of an event with the ids of the largest prompt: a token has at least one byte, and its id seven digits. */
const MOVING_HELD_BYTES = 8 * bounds.MOVING_BODY_BYTES;

type EventTaker = Pick<AnswerStream, 'write' | 'tell' | 'moves'>;

/** Passes the events of an engine to the relay, without what only the worker asked for. */
class PassedEvents {
  readonly #stream: EventTaker;
  readonly #added: AddedUsage | null;
  readonly #moving: Moving | null;
  readonly #ids: TokenIds | null;
  readonly #stops: StopHold | null;
  #hasBegun = false;

  /** @param isCounted whether the engine was asked for a usage that the caller did not ask for */
  constructor(stream: EventTaker, isCounted: boolean, moving: Moving | null) {
    this.#stream = stream;
    this.#added = isCounted ? new AddedUsage() : null;
    this.#moving = moving;
    this.#ids = moving && new TokenIds(moving.isAsked, moving.prompt);
    this.#stops = moving && StopHold.of(moving.plan);
  }

  /** Passes on events. @param isMarked as of `AddedUsage` @throws JobFailure */
  write(events: Events, isMarked: boolean): void {
    this.#pass(this.#added === null ? events.text : this.#added.push(events.text, isMarked), events);
  }

  /** Passes on what was held back to the end of the stream. @param rest the last event, where that lacks its end */
  end(rest: Events | null, isMarked: boolean): void {
    if (rest !== null) this.write(rest, isMarked);
    if (this.#added !== null) this.#pass(this.#added.rest(), null);
    const held = this.#stops?.rest() ?? null;
    if (held !== null) this.#write(characters(held), true, null);
  }

  /**
   * Breaks the answer off behind a whole event. Text in which a stop string may have begun is not passed on: the engine
   * that goes on makes it anew, as it would not see a stop string whose beginning it was given.
   */
  breakOff(): void {
    if (this.#added !== null) this.#pass(this.#added.rest(), null);
  }

  /** Passes on a text. @param given the events that the text is made of */
  #pass(text: string, given: Events | null): void {
    if (text === '') return;
    if (this.#stops === null) return this.#write(text, false, given);
    const released = this.#stops.push(Buffer.from(text, 'latin1'));
    if (released !== null) this.#write(characters(released.events), released.stays, null);
  }

  #write(text: string, stays: boolean, given: Events | null): void {
    const wanted = this.#ids === null ? text : this.#tell(text, stays, this.#ids, this.#moving!);
    if (wanted === '') return;
    this.#stream.write(wanted === given?.text ? given.bytes : Buffer.from(wanted, 'latin1'));
  }

  #tell(text: string, stays: boolean, reader: TokenIds, moving: Moving): string {
    const { text: wanted, ids, mayBeCut, stage } = reader.push(text);
    if (!this.#hasBegun) this.#begin(reader, moving);
    this.#stream.tell(stays ? null : ids, stage, mayBeCut);
    return wanted;
  }

  #begin({ beginning }: TokenIds, { plan, from }: Moving): void {
    this.#hasBegun = true;
    if (from !== null && (beginning === null || !continuesFrom(beginning, from))) {
      const message = 'the engine does not go on from token ids: the answer cannot be continued here';
      throw new NotContinued(message);
    }
    if (beginning === null) return;
    const { identity, promptIds } = beginning;
    this.#stream.moves({ plan, identity, prompt_tokens: promptIds.length }, promptIds);
  }
}

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
  const isCompletion = hasChoices(request.path);
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
  const isCut = engineRoute(request.path)?.closes === true && !watch.isWhole(() => choicesOf(request));
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
