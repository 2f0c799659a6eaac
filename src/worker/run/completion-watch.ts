import { type AnswerBody, EngineGone, readPieces } from '../../engine/client/types.ts';
import {
  countEvents,
  type Dialect,
  dialectOf,
  type EngineError,
  hasChoices,
  type Usage,
} from '../../protocol/index.ts';
import { EventReader, Events, type StreamEvent } from '../answers/events.ts';
import { ReportedUsage, USAGE_CHARACTERS } from './usage.ts';

/**
 * Finds in one pass whether an event holds anything to look at. It finds a little more than that: with the first
 * quotes, or with the common part of the last alternatives factored out, V8 skips less, and an event takes 0.15 to 0.4
 * µs, not 0.05.
 */
const MARKS = /error(?:"|: ?\{|[ \t]*[\r\n])|usage"|_reason"\s*:\s*(?:"[^"]|\{)|response\./;
/** Matches an event that has to be whole to be understood, and is parsed for that. */
const SAYS = /error(?:"|: ?\{|[ \t]*[\r\n])|_reason"\s*:\s*(?:"[^"]|\{)|response\.(?:failed|incomplete)/;
/** Finds the end of a stream: two searches for words take a fifth of the time that alternatives of MARKS would. */
const hasEndMark = (text: string) => text.includes('[DONE]') || text.includes('message_stop');
/**
 * Matches the end of a stream, whatever comes behind it: the mark of OpenAI's older routes, or an event of
 * `/v1/messages` and `/v1/responses`, whose type may be the last in its data.
 */
const END =
  /(?:^|[\r\n])data: ?\[DONE\][ \t]*[\r\n]|"type"\s*:\s*"(?:message_stop|response\.(?:completed|incomplete|failed))"/;
/** Matches the mark without the end of its line, which may still come. */
const DONE = /(?:^|[\r\n])data: ?\[DONE\]\s*$/;
/** This many characters of an event are kept until it is whole; a response that failed brings all it had. */
const EVENT_CHARACTERS = 1024 * 1024;
/** Finds a failure in a longer event, of which only the beginning is looked at. */
const FAILED =
  /(?:^|[\r\n])event: ?error[ \t]*[\r\n]|"(?:type|object)"\s*:\s*"(?:error|response\.failed)"|"error"\s*:\s*(?:\{\s*"|"[^"])/;
const TOO_LONG: EngineError = {
  error: { message: 'the engine failed, and its error is too long to be read' },
  status: 500,
};

/** The engine's own error among the events of an answer. */
export interface StreamFailure extends EngineError {
  /** True if clients see the event as an error when they read it. */
  isRaised: boolean;
  /** The place where the event begins in the events that were seen last when the failure was found. */
  at: number;
}

/**
 * Returns a body whose connection may break once the closing event of its stream has come, as no part of the answer is
 * lost then.
 */
export function untilEnd(body: AnswerBody, watch: Pick<CompletionWatch, 'isDone'>): AnswerBody {
  const unlessDone = (error: unknown) => {
    if (!(error instanceof EngineGone) || !watch.isDone) throw error;
  };
  return {
    eachPiece: (take) => readPieces(body, take).catch(unlessDone),
    async *[Symbol.asyncIterator]() {
      try {
        yield* body;
      } catch (error) {
        unlessDone(error);
      }
    },
  };
}

/**
 * Reads the events of an answer as they pass by: whether it came to its proper end, and what it used. The search is in
 * raw bytes: inside a JSON string the quotes and line ends would be escaped, so a match is real.
 */
export class CompletionWatch {
  readonly #reader: EventReader;
  readonly #dialect: Dialect;
  #isGivenUp = false;
  #hasEnded = false;
  /** The text so far of an event that passes in parts, and the end of that text, to find what spans two parts. */
  #part = '';
  #tail = '';
  /**
   * False until the first choice: until then all events are read, since an engine may report its error in a form of its
   * own.
   */
  #hasBegun: boolean;
  #failure: StreamFailure | null = null;
  readonly #finished = new Set<number>();
  readonly #reported = new ReportedUsage();
  #events = 0;
  /**
   * The number of events that no token is counted for: the first opens the answer, and a usage includes those before
   * it.
   */
  #eventsCounted = 1;

  /**
   * @param path of the request, which decides how its API tells errors
   * @param mostBytes as of an `EventReader`
   */
  constructor(path = '/v1/chat/completions', mostBytes?: number) {
    this.#reader = new EventReader(mostBytes);
    this.#dialect = dialectOf(path);
    this.#hasBegun = !hasChoices(path);
  }

  /** Takes a piece of the stream, and returns the events that are whole with it, or null. */
  see(piece: Uint8Array): Events | null {
    const events = this.#reader.push(piece);
    if (events !== null) this.#look(events);
    return events;
  }

  /**
   * Reads the last event after a body that ended in order: text that lacks only its blank line is an event too.
   * @returns that event, or null where the last one was whole
   */
  end(): Events | null {
    const rest = this.#reader.rest();
    if (rest !== null) this.#look(rest);
    else if (this.#part !== '') this.#readParts('', true);
    return rest;
  }

  /** True if the engine gave the generation up, so there is no result. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** The engine's own error among the events; null: none has come. */
  get failure(): StreamFailure | null {
    return this.#failure;
  }

  /** Tells whether a stream that has ended in order is whole. @param choices returns how many choices were requested */
  isWhole(choices: () => number): boolean {
    return this.isDone || (this.#finished.size > 0 && this.#finished.size >= choices());
  }

  /** True once the closing event of a stream has come. */
  get isDone(): boolean {
    return this.#hasEnded || isEnd(this.#reader.unfinished);
  }

  /** The tokens that the engine counted; null: it did not say. */
  get usage(): Usage | null {
    return this.#reported.usage;
  }

  /**
   * The least that the answer used: the tokens that the engine has reported, and one for each event since; null: no
   * event has come.
   */
  get estimate(): Usage | null {
    if (this.#events === 0) return null;
    const since = this.#events - this.#eventsCounted - (this.isDone ? 1 : 0);
    const { model, completionTokens } = this.#reported;
    return {
      prompt_tokens: 0,
      ...this.usage,
      completion_tokens: (completionTokens ?? 0) + Math.max(0, since),
      ...(model !== null && { model }),
      estimated: true,
    };
  }

  #look(events: Events): void {
    const { text, isWhole } = events;
    const isPart = !isWhole || this.#part !== '';
    this.#events += countEvents(text, this.#part !== '');
    events.isMarked = this.#mark(isPart ? this.#tail + text : text);
    if (isPart) this.#readParts(text, isWhole);
    else if (!this.#hasBegun || (events.isMarked && SAYS.test(text))) this.#readEvents(events.list, 0);
  }

  /** Reads what may be in a text beside tokens. @returns whether anything may be */
  #mark(text: string): boolean {
    this.#reported.seeModel(text);
    if (!MARKS.test(text) && !hasEndMark(text)) return false;
    this.#hasEnded ||= isEnd(text);
    if (this.#reported.count(text)) this.#eventsCounted = this.#events;
    return true;
  }

  #readParts(text: string, isLast: boolean): void {
    const before = this.#part;
    if (isLast) this.#readEvents(Events.ofText(before + text).list, before.length);
    this.#part = isLast ? '' : before.length < EVENT_CHARACTERS ? before + text : before;
    this.#tail = isLast ? '' : (this.#tail + text).slice(-USAGE_CHARACTERS);
  }

  /** Reads events. @param before how many characters of the first one had come earlier */
  #readEvents(events: readonly StreamEvent[], before: number): void {
    let at = -before;
    for (const event of events) {
      this.#hasBegun ||= event.text.includes('"choices"');
      if (!this.#hasBegun || SAYS.test(event.text)) this.#read(event, Math.max(0, at));
      at += event.text.length;
    }
  }

  /** Reads one event. @param at where the event begins in the events that were seen last */
  #read(event: StreamEvent, at: number): void {
    if (event.text.length >= EVENT_CHARACTERS) {
      const found = FAILED.exec(event.text)?.[0];
      if (found) this.#failure ??= { ...TOO_LONG, isRaised: !found.startsWith('"object"'), at: 0 };
      return;
    }
    const { failed, isRaised, isGivenUp, finished } = event.says(this.#dialect);
    if (failed !== null) this.#failure ??= { ...failed, isRaised, at };
    this.#isGivenUp ||= isGivenUp;
    for (const choice of finished) this.#finished.add(choice);
  }
}

/** Tells whether the closing event is among these events, the last of which may lack the end of its line. */
function isEnd(events: string): boolean {
  return END.test(events) || DONE.test(events);
}
