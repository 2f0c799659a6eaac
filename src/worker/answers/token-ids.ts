import {
  type AnswerIdentity,
  bounds,
  isObject,
  STAGES,
  type Stage,
  splitEvents,
} from '../../protocol/index.ts';
import { Events, type StreamEvent } from './events.ts';

/** The end of the name of each list of ids: the prompt's, and those of generated tokens. */
const NAME = 'token_ids"';
const PROMPT = 'prompt_';
/** Matches, in one pass, events that hold more than the text of a token, and a few others. */
const MARKS = /_reason"\s*:\s*"|usage"|\[DONE\]|_calls"|reasoning|delta"\s*:\s*\{\s*\}/;
const FINISH = /"finish_reason"\s*:\s*"[^"]/;
const USAGE = /"usage"\s*:\s*\{/;
const DONE = /(?:^|[\r\n])data: ?\[DONE\]/;
const NO_DELTA = /"delta"\s*:\s*\{\s*\}/;
const LOGPROBS = /"logprobs"\s*:\s*\{/;
/** Matches calls of tools: their parser would start over at another engine. */
const TOOL_CALLS = /"tool_calls"\s*:\s*\[\s*\{/;
const REASONING = /"(?:reasoning|reasoning_content)"\s*:\s*"[^"]/;
/** Matches content other than blanks: parsers of reasoning pass on everything after it unchanged. */
const CONTENT = /"content"\s*:\s*"(?:\s|\\[nrt])*(?:[^"\\\s]|\\[^nrt])/;

/** The tokens that some whole events of an answer reveal. */
interface ReportedTokens {
  /** The events as the caller gets them; null: the caller gets none of them. */
  events: Events | null;
  /** The ids of the tokens generated in the events; null: not all ids are known any more, so the answer stays. */
  ids: number[] | null;
  /** Whether the answer may be cut off after these events. */
  mayBeCut: boolean;
  stage: Stage;
}

/** The facts that the first events of a movable answer reveal. */
export interface Beginning {
  identity: AnswerIdentity;
  promptIds: readonly number[];
}

/**
 * Reads the token ids out of an answer's events, and removes them if the caller did not request them. Quotes inside a
 * JSON string would be escaped, so a match is real.
 */
export class TokenIds {
  readonly #isAsked: boolean;
  readonly #prompt: readonly number[] | null;
  #stage: Stage = 'running';
  #known = 0;
  #isLost = false;
  #isReasoning = false;
  #hasContent = false;
  /** The beginning of the answer; null before its first events, and if they do not show it. */
  beginning: Beginning | null = null;
  #hasBegun = false;

  /**
   * @param isAsked whether the caller wants to see the ids
   * @param prompt the ids that the caller wrote; null: the engine reports them
   */
  constructor(isAsked: boolean, prompt: readonly number[] | null = null) {
    this.#isAsked = isAsked;
    this.#prompt = prompt;
  }

  /** Reads events and removes the ids from them. */
  read(events: Events): ReportedTokens {
    const { text } = events;
    if (!this.#hasBegun) this.#begin(events.list);
    const isMarked = MARKS.test(text);
    const ids: number[] = [];
    const rest = withoutIds(text, ids);
    if (isMarked) this.#stage = laterOf(this.#stage, stageIn(text));
    const known = this.#follow(events, ids, isMarked);
    return {
      events: this.#isAsked ? events : passed(isMarked ? forCaller(rest) : rest, events),
      ids: known,
      mayBeCut: !this.#isReasoning,
      stage: this.#stage,
    };
  }

  #begin(events: readonly StreamEvent[]): void {
    const event = events.find(({ data }) => data !== null)?.data ?? null;
    if (event === null) return;
    this.#hasBegun = true;
    const [choice] = (Array.isArray(event.choices) ? event.choices : []) as Record<string, unknown>[];
    const promptIds = this.#prompt ?? event.prompt_token_ids ?? choice?.prompt_token_ids;
    const identity = identityOf(event);
    if (!Array.isArray(promptIds) || identity === null) return;
    this.#known = promptIds.length;
    this.beginning = { identity, promptIds };
  }

  /** Follows the tokens of events. @returns their ids; null if not all ids are known any more */
  #follow(events: Events, ids: number[], isMarked: boolean): number[] | null {
    const { text } = events;
    if (this.#isLost || this.beginning === null) return null;
    this.#known += ids.length;
    this.#isLost = this.#known > bounds.MOVING_IDS || (isMarked && TOOL_CALLS.test(text));
    if (this.#isReasoning || (isMarked && REASONING.test(text))) this.#followReasoning(events);
    else this.#hasContent ||= CONTENT.test(text);
    return this.#isLost ? null : ids;
  }

  /** Follows reasoning: if it comes after content, its parser has started over, and the answer stays. */
  #followReasoning(events: Events): void {
    for (const { text } of events.list) {
      const reasons = REASONING.test(text);
      this.#isLost ||= reasons && this.#hasContent;
      this.#hasContent ||= CONTENT.test(text);
      this.#isReasoning = !this.#hasContent && (this.#isReasoning || reasons);
    }
  }
}

function identityOf(event: Record<string, unknown>): AnswerIdentity | null {
  const { id, object, created, model, request_id, output_mode } = event;
  if (typeof id === 'string' && typeof created === 'number') {
    return { id, object: String(object), created, model: String(model) };
  }
  return typeof request_id === 'string' ? { request_id, output_mode: String(output_mode) } : null;
}

/** Returns the events of a text. @param given the events that the text was made from */
function passed(text: string, given: Events): Events | null {
  if (text === given.text) return given;
  return text === '' ? null : Events.ofText(text);
}

/**
 * Returns events without the ids of the prompt and of tokens. A pattern would cost several objects for each list.
 * @param ids takes the ids of the tokens
 */
function withoutIds(events: string, ids: number[]): string {
  let rest = '';
  let from = 0;
  for (let at = events.indexOf(NAME); at >= 0; at = events.indexOf(NAME, at + NAME.length)) {
    const isPrompt = events.startsWith(PROMPT, at - PROMPT.length);
    if (events[at - (isPrompt ? PROMPT.length : 0) - 1] !== '"') continue;
    const list = valueAt(events, at + NAME.length);
    const end = events[list] === '[' ? endOfIds(events, list + 1, isPrompt ? null : ids) : -1;
    if (end < 0) continue;
    rest += `${events.slice(from, at)}${NAME}:null`;
    from = end;
  }
  return from === 0 ? events : rest + events.slice(from);
}

/** Returns where the value behind a name begins; without a colon, a place where no value begins. */
function valueAt(json: string, behindName: number): number {
  const colon = behindBlanks(json, behindName);
  return json[colon] === ':' ? behindBlanks(json, colon + 1) : colon;
}

function behindBlanks(json: string, from: number): number {
  let at = from;
  while (json.charCodeAt(at) <= 32) at += 1;
  return at;
}

/**
 * Reads a list of ids. @param ids takes them; null: they are skipped @returns the list's end; -1: it is no list of ids
 */
function endOfIds(json: string, from: number, ids: number[] | null): number {
  const before = ids?.length ?? 0;
  let id = -1;
  for (let at = from; ; at++) {
    const code = json.charCodeAt(at);
    if (code >= 48 && code <= 57) {
      id = (id < 0 ? 0 : id * 10) + code - 48;
      continue;
    }
    if (id >= 0) ids?.push(id);
    id = -1;
    if (code === 93) return at + 1;
    if (code === 44 || code <= 32) continue;
    if (ids !== null) ids.length = before;
    return -1;
  }
}

function forCaller(events: string): string {
  if (!NO_DELTA.test(events) || !events.includes(NAME)) return events;
  return splitEvents(events).filter(isForCaller).join('');
}

/**
 * Tells whether a caller that requested no ids would get this event: vLLM sends none for tokens from which a parser
 * makes no text, unless their ids are requested.
 */
function isForCaller(event: string): boolean {
  return !NO_DELTA.test(event) || FINISH.test(event) || LOGPROBS.test(event);
}

function stageIn(text: string): Stage {
  if (DONE.test(text)) return 'closed';
  if (USAGE.test(text) && /"choices"\s*:\s*\[\s*\]/.test(text)) return 'counted';
  return FINISH.test(text) ? 'finished' : 'running';
}

function laterOf(one: Stage, other: Stage): Stage {
  return STAGES.indexOf(one) > STAGES.indexOf(other) ? one : other;
}

/** Tells whether the events of a continuation begin with the prompt that was sent. */
export function continuesFrom({ promptIds }: Beginning, asked: readonly number[]): boolean {
  return promptIds.length === asked.length && asked.every((id, at) => promptIds[at] === id);
}

/** Returns the ids that a request has as its prompt; null if it has none. */
export function idsAsked(body: unknown): number[] | null {
  if (!isObject(body)) return null;
  const ids = Object(body.kv_transfer_params).prompt_token_ids ?? body.prompt ?? body.token_ids;
  return Array.isArray(ids) ? (ids as number[]) : null;
}
