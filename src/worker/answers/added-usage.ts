import { isObject, jsonFields } from '../../protocol/index.ts';
import { characters, Events, type EventTransform, StreamEvent } from './events.ts';

type Fields = Record<string, unknown>;

/**
 * Matches an event that finishes a choice. Quotes inside a string would be escaped, so a match is real. Some engines
 * write an empty reason into each event.
 */
const FINISHES = /"finish_reason"\s*:\s*"[^"]/;
/** The members that every event has in the same place. */
const OWN = new Set(['id', 'object', 'created', 'model', 'choices', 'usage']);

/**
 * Removes the event that reports the usage from a stream whose caller did not ask for it, and leaves every other byte
 * as it is. That event has no choices, and is the only one with a usage: if an engine reports usage in its other events
 * too, it does so for every caller, and its last event is the caller's. An engine then puts a member into that event
 * instead of the one before it (vLLM its `system_fingerprint`); such a member goes back to where it would have stood.
 * For this the event that finishes a choice waits for the next one.
 */
export class AddedUsage implements EventTransform {
  /** The held event that finishes a choice. */
  #finish: StreamEvent | null = null;
  /** Whether the search is over: the event was found, or the engine reports usage to every caller. */
  #isOver = false;

  push(events: Events): Events | null {
    const isOfUse = events.isMarked && !this.#isOver;
    if (!isOfUse && this.#finish === null) return events;
    const passed: StreamEvent[] = [];
    for (const event of events.list) this.#next(event, passed);
    return Events.ofList(passed);
  }

  end(): Events | null {
    const finish = this.#finish;
    this.#finish = null;
    return finish && Events.ofList([finish]);
  }

  /** Takes one event. @param passed the events that may go on, to which it adds */
  #next(event: StreamEvent, passed: StreamEvent[]): void {
    const before = this.#finish;
    this.#finish = null;
    const data = !this.#isOver && event.text.includes('"usage"') ? event.data : null;
    if (isObject(data?.usage)) {
      this.#isOver = true;
      const { choices } = data;
      const isAdded = Array.isArray(choices) && choices.length === 0;
      if (before !== null) passed.push(isAdded ? withLast(before, data, event) : before);
      if (!isAdded) passed.push(event);
      return;
    }
    if (before !== null) passed.push(before);
    if (!this.#isOver && FINISHES.test(event.text)) this.#finish = event;
    else passed.push(event);
  }
}

/** Returns the event before the removed one, with the members that the engine wrote only into its last event. */
function withLast(finish: StreamEvent, data: Fields, added: StreamEvent): StreamEvent {
  const fields = Object.keys(data).filter((name) => !OWN.has(name));
  const known = fields.length > 0 ? finish.data : null;
  if (known === null) return finish;
  const { text } = finish;
  const end = text.lastIndexOf('}');
  const missing = fields.filter((name) => !(name in known));
  const members = missing.map((name) => memberText(added.text, name, data[name]));
  return new StreamEvent(text.slice(0, end) + members.join('') + text.slice(end));
}

/** Returns a member of the event's data as it is written there, behind a comma; empty if there is none. */
function memberText(event: string, name: string, value: unknown): string {
  const usual = `,${JSON.stringify(name)}:${JSON.stringify(value)}`;
  // Behind a number may be more of it, as in 1.0.
  if (event.includes(`${usual},`) || event.includes(`${usual}}`)) return usual;
  const json = Buffer.from(event.slice(event.indexOf('{')), 'latin1');
  const written = jsonFields(json, [name])[name];
  return written === undefined
    ? ''
    : characters(Buffer.concat([Buffer.from(`,${JSON.stringify(name)}:`), written]));
}
