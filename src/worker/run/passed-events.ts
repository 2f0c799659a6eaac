import { StopHold } from '../../moving/stop-hold.ts';
import { continuesFrom, TokenIds } from '../../moving/token-ids.ts';
import { limits, type MovePlan } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import { EventSplitter } from '../answers/event-splitter.ts';
import { AddedUsage } from './added-usage.ts';
import { NotContinued } from './continued.ts';

/** An event with the ids of a prompt that came in so many bytes: a token has a byte at least, its id seven digits. */
const HELD_BYTES = 8 * limits.MOVING_BODY_BYTES;

/** How an engine was asked so that its answer can be moved. */
export interface Moving {
  plan: MovePlan;
  /** Its caller asked for the ids too, and gets them. */
  isAsked: boolean;
  /** Of a continuation: the ids that it goes on from; null: it is none. */
  from: readonly number[] | null;
  /** The ids of its prompt; null: the engine tells them. */
  prompt: readonly number[] | null;
}

type EventTaker = Pick<AnswerStream, 'write' | 'tell' | 'moves'>;

/** Takes the events of an engine to the relay, without what only the worker asked for. */
export class PassedEvents {
  readonly #stream: EventTaker;
  readonly #added: AddedUsage | null;
  readonly #splitter: EventSplitter | null;
  readonly #moving: Moving | null;
  readonly #ids: TokenIds | null;
  readonly #stops: StopHold | null;
  #hasBegun = false;

  /** @param isCounted the engine was asked for a usage that the caller did not ask for */
  constructor(stream: EventTaker, isCounted: boolean, moving: Moving | null) {
    const mostBytes = moving === null ? undefined : HELD_BYTES;
    this.#stream = stream;
    this.#added = isCounted ? new AddedUsage(mostBytes) : null;
    this.#splitter = moving !== null && !isCounted ? new EventSplitter(mostBytes) : null;
    this.#moving = moving;
    this.#ids = moving && new TokenIds(moving.isAsked, moving.prompt);
    this.#stops = moving && StopHold.of(moving.plan);
  }

  /** @param isMarked as of `AddedUsage` @throws JobFailure */
  write(piece: Uint8Array, isMarked: boolean): void {
    this.#pass(this.#added?.push(piece, isMarked) ?? (this.#added ? null : this.#whole(piece)));
  }

  /** What is left at the end of the stream. */
  end(): void {
    this.#pass((this.#added ?? this.#splitter)?.rest() ?? null);
    this.#write(this.#stops?.rest() ?? null, false);
  }

  #whole(piece: Uint8Array): Uint8Array | null {
    return this.#splitter ? this.#splitter.push(piece) : piece;
  }

  #pass(events: Uint8Array | null): void {
    if (events === null || this.#stops === null) return this.#write(events, false);
    const released = this.#stops.push(events);
    this.#write(released?.events ?? null, released?.stays ?? false);
  }

  #write(events: Uint8Array | null, stays: boolean): void {
    if (events === null) return;
    this.#stream.write(this.#ids ? this.#tell(events, stays, this.#ids, this.#moving!) : events);
  }

  #tell(events: Uint8Array, stays: boolean, reader: TokenIds, moving: Moving): Uint8Array {
    const { events: wanted, ids, mayBeCut, stage } = reader.push(events);
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
