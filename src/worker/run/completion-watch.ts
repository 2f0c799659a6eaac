import { type AnswerBody, EngineGone, readPieces } from '../../engine/client/types.ts';
import {
  type Dialect,
  dialectOf,
  type EngineError,
  jsonOrText,
  listIn,
  readEvent,
  type Usage,
} from '../../protocol/index.ts';

/** Longest mark looked for, with room for blanks: what a search across two pieces must see of the first. */
const TAIL_CHARACTERS = 64;
/** The same of a usage object. */
const USAGE_CHARACTERS = 600;
/**
 * In one pass: whether there is anything to look at. It finds a little more than that: with the first quotes, or with
 * what is the same of the last alternatives put together, V8 skips less, and an event takes 0.15 to 0.4 µs, not 0.05.
 */
const MARKS = /error(?:"|: ?\{|[ \t]*\r?\n)|usage"|_reason"\s*:\s*(?:"[^"]|\{)|response\./;
/** Matches an event that has to be whole to be understood, and is parsed for that. */
const SAYS = /error(?:"|: ?\{|[ \t]*\r?\n)|_reason"\s*:\s*(?:"[^"]|\{)|response\.(?:failed|incomplete)/;
/** The same for the end of a stream: as two words of their own they take a fifth of what they would as alternatives. */
const hasEndMark = (text: string) => text.includes('[DONE]') || text.includes('message_stop');
/**
 * The end of a stream, whatever comes behind it: of OpenAI's older routes the mark, of `/v1/messages` and
 * `/v1/responses` an event, whose type may be the last in its data.
 */
const END =
  /(?:^|\n)data: ?\[DONE\][ \t]*\r?\n|"type"\s*:\s*"(?:message_stop|response\.(?:completed|incomplete|failed))"/;
/** The mark without the end of its line: more of that may come. */
const DONE = /(?:^|\n)data: ?\[DONE\]\s*$/;
/** Characters that are kept of an event until it is whole; a response that failed brings all it had. */
const EVENT_CHARACTERS = 1024 * 1024;
/** Finds a failure in a longer event, of which only the beginning is looked at. */
const FAILED =
  /(?:^|\n)event: ?error[ \t]*\r?\n|"(?:type|object)"\s*:\s*"(?:error|response\.failed)"|"error"\s*:\s*(?:\{\s*"|"[^"])/;
const TOO_LONG: EngineError = {
  error: { message: 'the engine failed, and its error is too long to be read' },
  status: 500,
};
const USAGE = /"usage"\s*:\s*\{/g;
const PROMPT_TOKENS = /"(?:prompt|input)_tokens"\s*:\s*(\d+)/;
const COMPLETION_TOKENS = /"(?:completion|output)_tokens"\s*:\s*(\d+)/;
const TOTAL_TOKENS = /"total_tokens"\s*:\s*(\d+)/;
const CACHED_TOKENS = /"(?:cached_tokens|cache_read_input_tokens)"\s*:\s*(\d+)/;
const REASONING_TOKENS = /"reasoning_tokens"\s*:\s*(\d+)/;
/** The engine's name for its model stands near the beginning of every answer. */
const MODEL = /"model"\s*:\s*("(?:[^"\\]|\\.){1,512}")/;
const MODEL_WITHIN_CHARACTERS = 4096;

const EVENT_END = /\n\r?\n/g;

/** The engine's own error among the events of an answer. */
export interface StreamFailure extends EngineError {
  /** Clients see it as an error when they read the event. */
  isRaised: boolean;
  /** Where the event begins in the piece that was seen last when the failure was found. */
  at: number;
}

/**
 * Returns a body whose connection may break once the closing event of its stream has come: no part of the answer is
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
 * Whether an answer that passes by came to its proper end, and what it used.
 * The search is in raw bytes: inside a JSON string the quotes and line ends would be escaped, so a match is real.
 */
export class CompletionWatch {
  /** What came last, bytes as characters; empty at the beginning. */
  #tail = '';
  readonly #dialect: Dialect;
  #isGivenUp = false;
  #hasEnded = false;
  /** The text of the event that is not whole yet; the flag says whether it may have to be parsed. */
  #event = '';
  #isEventMarked = false;
  /**
   * False until the first choice: until then all events are read, since an engine may tell its error in a form of its
   * own.
   */
  #hasBegun: boolean;
  #failure: StreamFailure | null = null;
  readonly #finished = new Set<number>();
  #promptTokens: number | null = null;
  #completionTokens: number | null = null;
  #cachedTokens: number | null = null;
  #reasoningTokens: number | null = null;
  #model: string | null = null;
  #seen = 0;
  #events = 0;
  /** How many of them no token is counted for: the first opens the answer, those up to a usage are in that. */
  #eventsCounted = 1;

  /** @param path of the request, which decides how its API tells errors */
  constructor(path = '/v1/chat/completions') {
    this.#dialect = dialectOf(path);
    this.#hasBegun = listIn(path) !== 'choices';
  }

  /** @returns whether there may be a usage in it, an error, or the end of a choice */
  see(piece: Uint8Array): boolean {
    const characters = latin1(piece);
    // Nothing that is looked for goes beyond the end of its event.
    const tail = endsBlank(this.#tail) ? '' : this.#tail;
    const text = tail + characters;
    this.#events += countEnds(text, tail.length);
    if (this.#model === null && this.#seen < MODEL_WITHIN_CHARACTERS) this.#model = modelIn(text);
    this.#seen += characters.length;
    let tailAt = text.length - TAIL_CHARACTERS;
    const isMarked = MARKS.test(text) || hasEndMark(text);
    this.#isEventMarked ||= !this.#hasBegun || (isMarked && SAYS.test(text));
    this.#follow(characters, text);
    if (isMarked) {
      this.#hasEnded ||= END.test(text);
      tailAt = Math.min(tailAt, this.#count(text));
    }
    const pieceAt = tailAt - tail.length;
    // Not a slice of the text if it can be helped: that would keep all of it until the next piece.
    this.#tail = pieceAt >= 0 ? latin1(piece.subarray(pieceAt)) : text.slice(Math.max(0, tailAt));
    return isMarked;
  }

  /** Reads the last event after a body that ended in order: text that lacks only its blank line is an event too. */
  end(): void {
    if (this.#says(this.#event)) this.#read(this.#event, 0);
    this.#event = '';
  }

  #says(event: string): boolean {
    this.#hasBegun ||= event.includes('"choices"');
    return !this.#hasBegun || SAYS.test(event);
  }

  /** The engine gave the generation up: no result. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** The engine's own error among the events; null: none has come. */
  get failure(): StreamFailure | null {
    return this.#failure;
  }

  /** Whether a stream that has ended in order is whole. @param choices returns how many choices were asked for */
  isWhole(choices: () => number): boolean {
    return this.isDone || (this.#finished.size > 0 && this.#finished.size >= choices());
  }

  /** Whether the closing event of a stream has come. */
  get isDone(): boolean {
    return this.#hasEnded || DONE.test(this.#tail);
  }

  /** The tokens that the engine counted; null: it did not say. */
  get usage(): Usage | null {
    if (this.#promptTokens === null) return null;
    return {
      prompt_tokens: this.#promptTokens,
      completion_tokens: this.#completionTokens ?? 0,
      ...(this.#cachedTokens !== null && { cached_tokens: this.#cachedTokens }),
      ...(this.#reasoningTokens !== null && { reasoning_tokens: this.#reasoningTokens }),
      ...(this.#model !== null && { model: this.#model }),
    };
  }

  /**
   * What it used at the least: what the engine has told, and a token for each event since. Null: nothing has come.
   */
  get estimate(): Usage | null {
    if (this.#events === 0) return null;
    const since = this.#events - this.#eventsCounted - (this.isDone ? 1 : 0);
    return {
      prompt_tokens: 0,
      ...this.usage,
      completion_tokens: (this.#completionTokens ?? 0) + Math.max(0, since),
      ...(this.#model !== null && { model: this.#model }),
      estimated: true,
    };
  }

  /** @param text the end of what came before, followed by the characters */
  #follow(characters: string, text: string): void {
    const end = endsBlank(text) ? text.length : lastEnd(text);
    if (end < 0) {
      if (this.#event.length < EVENT_CHARACTERS) this.#event += characters;
    } else if (this.#isEventMarked) this.#readEvents(characters);
    else this.#event = text.slice(end);
  }

  #readEvents(characters: string): void {
    const before = this.#event.length;
    const text = this.#event + characters;
    let from = 0;
    for (const { index, 0: end } of text.matchAll(EVENT_END)) {
      const event = text.slice(from, index + end.length);
      if (this.#says(event)) this.#read(event, from - before);
      from = index + end.length;
    }
    this.#event = text.slice(from);
    this.#isEventMarked = this.#says(this.#event);
  }

  /** @param at where the event begins in the piece; below 0: in an earlier one */
  #read(event: string, at: number): void {
    if (event.length >= EVENT_CHARACTERS) {
      const found = FAILED.exec(event)?.[0];
      if (found) this.#failure ??= { ...TOO_LONG, isRaised: !found.startsWith('"object"'), at: 0 };
      return;
    }
    const { failed, isRaised, isGivenUp, finished } = readEvent(
      Buffer.from(event, 'latin1').toString(),
      this.#dialect,
    );
    if (failed !== null) this.#failure ??= { ...failed, isRaised, at: Math.max(0, at) };
    this.#isGivenUp ||= isGivenUp;
    for (const choice of finished) this.#finished.add(choice);
  }

  /** @returns where the last usage begins if it may go on in the next piece */
  #count(text: string): number {
    let last = text.length;
    for (const { index } of text.matchAll(USAGE)) {
      const usage = text.slice(index, index + USAGE_CHARACTERS);
      // Each holds for the whole answer; `/v1/messages` tells the two in two events.
      this.#promptTokens = promptIn(usage) ?? this.#promptTokens;
      const completion = numberIn(usage, COMPLETION_TOKENS);
      if (completion !== null) this.#eventsCounted = this.#events;
      this.#completionTokens = completion ?? this.#completionTokens;
      this.#cachedTokens = numberIn(usage, CACHED_TOKENS) ?? this.#cachedTokens;
      this.#reasoningTokens = numberIn(usage, REASONING_TOKENS) ?? this.#reasoningTokens;
      last = index;
    }
    return text.length - last < USAGE_CHARACTERS ? last : text.length;
  }
}

/** Routes that score count only all tokens, which are the prompt's. */
function promptIn(usage: string): number | null {
  const prompt = numberIn(usage, PROMPT_TOKENS);
  return prompt !== null || COMPLETION_TOKENS.test(usage) ? prompt : numberIn(usage, TOTAL_TOKENS);
}

function modelIn(text: string): string | null {
  const found = MODEL.exec(text)?.[1];
  const model = found === undefined ? null : jsonOrText(Buffer.from(found, 'latin1').toString());
  return typeof model === 'string' && model.length <= 512 ? model : null;
}

/** How many events end in a text, from a place in it on. */
function countEnds(text: string, from: number): number {
  let count = 0;
  for (let at = text.indexOf('\n', from); at >= 0; at = text.indexOf('\n', at + 1)) {
    const line = lineEndBefore(text, at);
    // Of several blank lines the first ends the event.
    if (line >= 0 && lineEndBefore(text, line) < 0) count += 1;
  }
  return count;
}

/** Returns the position just behind the last event that ends in a text; below 0: none does. */
function lastEnd(text: string): number {
  const end = Math.max(text.lastIndexOf('\n\n') + 2, text.lastIndexOf('\n\r\n') + 3);
  return end >= 3 || text.startsWith('\n\n') ? end : -1;
}

function endsBlank(text: string): boolean {
  return text.endsWith('\n\n') || text.endsWith('\n\r\n');
}

/** The line end right before another, with nothing between them; below 0: there is none. */
function lineEndBefore(text: string, lineEnd: number): number {
  const at = text[lineEnd - 1] === '\r' ? lineEnd - 2 : lineEnd - 1;
  return text[at] === '\n' ? at : -1;
}

function numberIn(text: string, pattern: RegExp): number | null {
  const found = pattern.exec(text);
  return found && Number(found[1]);
}

function latin1(piece: Uint8Array): string {
  const bytes =
    piece instanceof Buffer ? piece : Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
  return bytes.toString('latin1');
}
