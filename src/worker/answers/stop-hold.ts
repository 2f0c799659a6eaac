import { stopsOf } from '../../moving/plan.ts';
import { isFinish, isObject, type MovePlan } from '../../protocol/index.ts';
import { Events, type EventTransform, type StreamEvent } from './events.ts';

type Fields = Record<string, unknown>;

/** The fields that may hold the text of a choice. */
const TEXTS = ['content', 'reasoning', 'reasoning_content'] as const;

/** The most events that are held back; more are held only for text that consists of beginnings of stop strings. */
const MOST_HELD = 64;

interface Held {
  event: StreamEvent;
  text: string;
  /** The number of characters at the end of the text so far that may begin a stop string. */
  begun: number;
}

/**
 * Holds back the events in which a stop string may have begun. An engine holds text back itself, and its events then
 * say less than the tokens whose ids they bring. So the worker asks the engine to show stop strings
 * (`include_stop_str_in_output`), holds back what may be one, and removes it.
 */
export class StopHold implements EventTransform {
  readonly #stops: readonly string[];
  /** The length of the longest beginning of a stop string. */
  readonly #longest: number;
  /** True if the caller wants to see the stop string. */
  readonly #isShown: boolean;
  /** The end of the text that has arrived so far. */
  #tail = '';
  #held: Held[] = [];
  #stays = false;
  #isFinished = false;

  /** Makes the hold for a request; null if the request has no stop strings. */
  static of({ rest }: MovePlan): StopHold | null {
    const stops = stopsOf(rest.stop) ?? [];
    return stops.length === 0 ? null : new StopHold(stops, rest.include_stop_str_in_output === true);
  }

  private constructor(stops: readonly string[], isShown: boolean) {
    this.#stops = stops;
    this.#longest = Math.max(...stops.map(({ length }) => length)) - 1;
    this.#isShown = isShown;
  }

  /** Whether a stop string may have begun in what was released: another engine would miss it, so the answer stays. */
  get stays(): boolean {
    return this.#stays;
  }

  push(events: Events): Events | null {
    if (this.#isFinished) return events;
    for (const event of events.list) this.#take(event);
    return this.#release(this.#isFinished ? this.#held.length : this.#clean());
  }

  /**
   * Releases what is held, unless the answer is cut: the engine that continues generates that text again, since it
   * would not recognise a stop string whose beginning it was given.
   */
  end(isCut: boolean): Events | null {
    if (isCut) return null;
    this.#stays ||= this.#held.length > 0;
    return this.#release(this.#held.length);
  }

  #take(event: StreamEvent): void {
    const choice = this.#isFinished ? null : choiceIn(event);
    const text = choice === null ? '' : textOf(choice);
    if (text !== '' && this.#longest > 0) this.#tail = (this.#tail + text).slice(-this.#longest);
    this.#held.push({ event, text, begun: this.#begun() });
    if (choice === null || !isFinish(choice.finish_reason)) return;
    this.#isFinished = true;
    const stop = choice.finish_reason === 'stop' && this.#stops.find((one) => one === choice.stop_reason);
    if (stop && !this.#isShown) this.#takeOut(stop);
  }

  /** Returns the length of the longest beginning of a stop string at the end of the text. */
  #begun(): number {
    let most = 0;
    for (const stop of this.#stops) {
      for (let length = Math.min(stop.length - 1, this.#tail.length); length > most; length--) {
        if (this.#tail.endsWith(stop.slice(0, length))) most = length;
      }
    }
    return most;
  }

  /** Returns the number of events that may be passed on: up to the last after which no stop string has begun. */
  #clean(): number {
    const clean = this.#held.findLastIndex(({ begun }) => begun === 0) + 1;
    if (clean > 0 || this.#held.length <= MOST_HELD) return clean;
    this.#stays = true;
    // Events that the stop string may have to be cut from stay held.
    const { begun } = this.#held.at(-1)!;
    let count = this.#held.length;
    for (let after = 0; after < begun; count--) after += this.#held[count - 1]!.text.length;
    return count;
  }

  /** Removes the stop string from the end of the held events, if it is there. */
  #takeOut(stop: string): void {
    const whole = this.#held.map(({ text }) => text).join('');
    let left = whole.endsWith(stop) ? stop.length : 0;
    for (let at = this.#held.length - 1; left > 0; at--) {
      const held = this.#held[at]!;
      if (held.text === '') continue;
      const kept = held.text.slice(0, Math.max(0, held.text.length - left));
      left -= held.text.length - kept.length;
      held.event = withText(held.event, kept);
    }
  }

  #release(count: number): Events | null {
    return Events.ofList(this.#held.splice(0, count).map(({ event }) => event));
  }
}

/** Returns the choice in an event; null if the event is a comment, an end mark, a usage, or an error. */
function choiceIn({ data }: StreamEvent): Fields | null {
  const choices = data?.choices;
  return Array.isArray(choices) && isObject(choices[0]) ? choices[0] : null;
}

function textOf(choice: Fields): string {
  const [where, name] = placeOf(choice);
  return name === null ? '' : String(where[name]);
}

function placeOf(choice: Fields): [Fields, string | null] {
  const { delta } = choice;
  if (!isObject(delta)) return [choice, typeof choice.text === 'string' ? 'text' : null];
  return [delta, TEXTS.find((name) => typeof delta[name] === 'string' && delta[name] !== '') ?? null];
}

function withText(event: StreamEvent, text: string): StreamEvent {
  const data = event.data as { choices: Fields[] };
  const [where, place] = placeOf(data.choices[0]!);
  where[place!] = text;
  return event.withData(data);
}
