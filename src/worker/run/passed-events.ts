import { StopHold } from '../../moving/stop-hold.ts';
import { continuesFrom, TokenIds } from '../../moving/token-ids.ts';
import { bounds, type MovePlan } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import { characters, type Events } from '../answers/event-reader.ts';
import { AddedUsage } from './added-usage.ts';
import { NotContinued } from './continued.ts';

/** The size of an event with the ids of the largest prompt: a token has at least one byte, and its id seven digits. */
export const MOVING_HELD_BYTES = 8 * bounds.MOVING_BODY_BYTES;

/** The request to an engine whose answer can be moved. */
export interface Moving {
  plan: MovePlan;
  /** True if the caller asked for the ids too, and gets them. */
  isAsked: boolean;
  /** The ids that a continuation goes on from; null: the request is none. */
  from: readonly number[] | null;
  /** The ids of the request's prompt; null: the engine reports them. */
  prompt: readonly number[] | null;
}

type EventTaker = Pick<AnswerStream, 'write' | 'tell' | 'moves'>;

/** Passes the events of an engine to the relay, without what only the worker asked for. */
export class PassedEvents {
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
