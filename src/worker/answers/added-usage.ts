import { isObject, jsonFields, jsonIn, jsonOrText, splitEvents } from '../../protocol/index.ts';

type Fields = Record<string, unknown>;

/**
 * Matches an event that finishes a choice. Inside a string the quotes would be escaped, so a match is real. Some
 * engines write an empty reason into each event.
 */
const FINISHES = /"finish_reason"\s*:\s*"[^"]/;
/** The members of an event that stand in the same place in every event. */
const OWN = new Set(['id', 'object', 'created', 'model', 'choices', 'usage']);

/**
 * Removes the event that reports the usage from a stream whose caller did not ask for it, and leaves every other byte
 * alone. That event has no choices, and is the only one with a usage: an engine that counts in its other events too
 * tells everybody, and its last event is the caller's. A member that an engine then puts into that event instead of the
 * one before it (vLLM its `system_fingerprint`) goes back to where it would have stood. For this the event that
 * finishes a choice waits for the next one.
 */
export class AddedUsage {
  /** The held event that finishes a choice. */
  #finish: string | null = null;
  /** True when nothing more is to be looked for: the event was found, or the engine counts for everybody. */
  #isOver = false;

  /**
   * Takes events, a character for each byte, and returns those that may go on.
   * @param isMarked whether they hold a usage, or the end of a choice
   */
  push(events: string, isMarked: boolean): string {
    const isOfUse = isMarked && !this.#isOver;
    if (!isOfUse && this.#finish === null) return events;
    let passed = '';
    for (const event of splitEvents(events)) passed += this.#next(event);
    return passed;
  }

  /** Returns the event that is held back at the end of the stream. */
  rest(): string {
    const finish = this.#finish ?? '';
    this.#finish = null;
    return finish;
  }

  /** Takes one event. @returns the events that may go on with it */
  #next(event: string): string {
    const before = this.#finish ?? '';
    this.#finish = null;
    if (this.#isOver) return before + event;
    const data = event.includes('"usage"') ? dataOf(event) : null;
    if (isObject(data?.usage)) {
      this.#isOver = true;
      const { choices } = data;
      const isAdded = Array.isArray(choices) && choices.length === 0;
      return isAdded ? withLast(before, data, event) : before + event;
    }
    if (!FINISHES.test(event)) return before + event;
    this.#finish = event;
    return before;
  }
}

/**
 * Returns the event before the one that is removed, with the members that the engine wrote only into its last event.
 */
function withLast(finish: string, data: Fields, added: string): string {
  const fields = Object.keys(data).filter((name) => !OWN.has(name));
  const known = fields.length > 0 ? dataOf(finish) : null;
  if (known === null) return finish;
  const end = finish.lastIndexOf('}');
  const members = fields.filter((name) => !(name in known)).map((name) => memberText(added, name));
  return (
    finish.slice(0, end) +
    members.map((text) => (text === null ? '' : `,${text}`)).join('') +
    finish.slice(end)
  );
}

/** Returns a member of the event's data as it is written there. */
function memberText(event: string, name: string): string | null {
  const json = Buffer.from(event.slice(event.indexOf('{')), 'latin1');
  const value = jsonFields(json, [name])[name];
  return value === undefined ? null : `${JSON.stringify(name)}:${Buffer.from(value).toString('latin1')}`;
}

/** Returns the object in an event's data; null: it holds no object. */
function dataOf(event: string): Fields | null {
  const json = jsonIn(event);
  const value = json === null ? null : jsonOrText(json);
  return isObject(value) ? value : null;
}
