import { spread } from './spread.ts';
import { type AnswerText, textsOfEvent } from './texts.ts';

/** A text that a hook is asked about. */
export interface AskedText {
  /** The field that has it: `content`, `text`, `reasoning`, `arguments`, … */
  part: string;
  text: string;
  /** The characters of the same channel that have passed already. */
  offset: number;
  /** Whether no more text of the channel follows. */
  isLast: boolean;
}

/** Asks the hook. @returns the text to pass instead; null: it stays @throws FilterRefusal */
export type AskHook = (asked: AskedText) => Promise<string | null>;

/**
 * The most events with tokens alone that wait for their text: a character is a few tokens, and some routes tell tokens
 * without any text.
 */
const MOST_WAITING = 16;

/** An event that has not gone on. */
interface HeldEvent {
  event: string;
  /** Writes the event with its texts as they were set. */
  changed(): string;
  /** The number of texts that it waits for: its own, and those that follow where it tells tokens alone. */
  left: number;
  isChanged: boolean;
  /** True if it tells tokens. Engines that look for stop strings tell them before they have passed the text on. */
  tellsTokens: boolean;
}

interface Piece {
  text: string;
  at: AnswerText;
  of: HeldEvent;
  /** The events before it that tell tokens of its choice and none of its text. */
  before: readonly HeldEvent[];
}

interface Channel {
  group: string;
  part: string;
  /** The pieces that have not passed, in their order. */
  held: Piece[];
  /** The characters at the end of `held` that the hook has not seen. */
  unseen: number;
  /** All text that has passed. */
  passed: string;
}

/**
 * Holds back the events of a stream until a hook has seen their texts, and so many more characters of the same channel
 * with them: what begins in one event and ends in a later one is seen whole before any of it passes. Events stay in
 * their order, and those that the hook does not change keep their bytes.
 */
export class HeldEvents {
  readonly #hold: number;
  readonly #ask: AskHook;
  readonly #channels = new Map<string, Channel>();
  #events: HeldEvent[] = [];
  /** The events that tell tokens without a text, by the group whose next text they wait for. */
  readonly #tokens = new Map<string, HeldEvent[]>();

  /** @param hold the characters that are held back, 1 at least: the longest text that is sure to be seen whole */
  constructor(hold: number, ask: AskHook) {
    this.#hold = hold;
    this.#ask = ask;
  }

  /** Takes an event. @returns the text of the events that may go on @throws FilterRefusal */
  async push(event: string): Promise<string> {
    const { texts, over, tokens, changed } = textsOfEvent(event);
    const held: HeldEvent = { event, changed, left: 0, isChanged: false, tellsTokens: tokens.length > 0 };
    this.#events.push(held);
    for (const text of texts) {
      if (text.isWhole) await this.#repeat(held, text);
      else await this.#add(held, text);
    }
    for (const group of tokens) if (!texts.some((text) => text.group === group)) this.#await(held, group);
    for (const channel of this.#channels.values()) {
      if (channel.unseen >= this.#hold) await this.#see(channel, false);
      if (over.includes(channel.group)) await this.#close(channel);
    }
    for (const group of over) pass(this.#awaited(group));
    return this.#take();
  }

  /** Ends the stream. @returns the text of the events that were left @throws FilterRefusal */
  async end(): Promise<string> {
    for (const channel of this.#channels.values()) await this.#close(channel);
    for (const group of [...this.#tokens.keys()]) pass(this.#awaited(group));
    return this.#take();
  }

  /** Holds an event until the next text of a group has passed, or so many more such events have come. */
  #await(held: HeldEvent, group: string): void {
    const waiting = [...this.#awaited(group), held];
    held.left += 1;
    if (waiting.length > MOST_WAITING) pass(waiting.splice(0, 1));
    this.#tokens.set(group, waiting);
  }

  /** Returns the events that waited for a text of this group; they wait for something else now. */
  #awaited(group: string): HeldEvent[] {
    const waited = this.#tokens.get(group) ?? [];
    this.#tokens.delete(group);
    return waited;
  }

  /** The events of which nothing is held any more, in their order. */
  #take(): string {
    const waits = this.#events.findIndex(({ left }) => left > 0);
    const free = this.#events.splice(0, waits < 0 ? this.#events.length : waits);
    return free.map(({ event, changed, isChanged }) => (isChanged ? changed() : event)).join('');
  }

  async #add(held: HeldEvent, at: AnswerText): Promise<void> {
    const channel = this.#channelOf(at);
    for (const other of this.#channels.values())
      if (other !== channel && other.group === at.group) await this.#close(other);
    held.left += 1;
    channel.held.push({ text: at.text, at, of: held, before: this.#awaited(at.group) });
    channel.unseen += at.text.length;
  }

  /** Takes text that came in pieces before, and becomes what has passed of them. */
  async #repeat(held: HeldEvent, at: AnswerText): Promise<void> {
    const isKnown = this.#channels.has(at.channel);
    const channel = this.#channelOf(at);
    if (!isKnown) {
      const { part, text } = at;
      channel.passed = (await this.#ask({ part, text, offset: 0, isLast: true })) ?? text;
    }
    await this.#close(channel);
    if (channel.passed === at.text) return;
    at.set(channel.passed);
    held.isChanged = true;
  }

  #channelOf({ channel: key, group, part }: AnswerText): Channel {
    const known = this.#channels.get(key);
    if (known) return known;
    const channel: Channel = { group, part, held: [], unseen: 0, passed: '' };
    this.#channels.set(key, channel);
    return channel;
  }

  async #close(channel: Channel): Promise<void> {
    if (channel.held.length > 0) await this.#see(channel, true);
  }

  async #see(channel: Channel, isLast: boolean): Promise<void> {
    const { held, part, passed } = channel;
    const text = held.map((piece) => piece.text).join('');
    const changed = await this.#ask({ part, text, offset: passed.length, isLast });
    channel.unseen = 0;
    if (changed !== null && changed !== text) replace(held, changed);
    let left = (changed ?? text).length;
    while (held.length > 0) {
      const { of, before } = held[0]!;
      left -= held[0]!.text.length;
      // Tokens pass once the text that they may be of has passed, too.
      if (!isLast && left < (of.tellsTokens || before.length > 0 ? 2 : 1) * this.#hold) break;
      channel.passed += held.shift()!.text;
      pass([of, ...before]);
    }
  }
}

/** Notes that events wait for one thing less. */
function pass(events: readonly HeldEvent[]): void {
  for (const event of events) event.left -= 1;
}

/**
 * Spreads another text over held pieces. Events up to the last changed piece lose their tokens, since those before it
 * may tell what it was.
 */
function replace(held: readonly Piece[], text: string): void {
  const before = held.map((piece) => piece.text);
  const after = spread(before, text);
  const last = after.findLastIndex((place, index) => place !== before[index]);
  for (const [index, piece] of held.slice(0, last + 1).entries()) {
    if (after[index] !== piece.text) {
      piece.text = after[index]!;
      piece.at.set(piece.text);
      piece.of.isChanged = true;
    }
    for (const event of [piece.of, ...piece.before]) event.isChanged ||= event.tellsTokens;
  }
}
