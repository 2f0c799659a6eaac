import { type AnswerIdentity, isObject, limits, STAGES, type Stage, splitEvents } from '../protocol/index.ts';
import { jsonIn, objectIn } from './event-json.ts';

/** Of the prompt, or of tokens. */
const IDS = /"(prompt_)?token_ids"\s*:\s*(\[[\d,\s]*\])/g;
/** In one pass: whether events say more than the text of a token. It finds a little more than what is looked for then. */
const MARKS = /_reason"\s*:\s*"|usage"|\[DONE\]|_calls"|reasoning|delta"\s*:\s*\{\s*\}/;
const FINISH = /"finish_reason"\s*:\s*"[^"]/;
const USAGE = /"usage"\s*:\s*\{/;
const DONE = /(?:^|\n)data: ?\[DONE\]/;
const NO_DELTA = /"delta"\s*:\s*\{\s*\}/;
const LOGPROBS = /"logprobs"\s*:\s*\{/;
/** A parser is at work that would begin anew. */
const TOOL_CALLS = /"tool_calls"\s*:\s*\[\s*\{/;
const REASONING = /"(?:reasoning|reasoning_content)"\s*:\s*"[^"]/;
/** More than blanks: parsers of reasoning pass on what comes behind it as it is. */
const CONTENT = /"content"\s*:\s*"(?:\s|\\[nrt])*(?:[^"\\\s]|\\[^nrt])/;

/** What some whole events of an answer say of its tokens. */
export interface TokensTold {
  /** The events as their caller gets them. */
  text: string;
  /** Of what is generated in them; null: not all ids are known any more, so the answer stays where it is. */
  ids: number[] | null;
  /** The answer may be cut off behind them. */
  mayBeCut: boolean;
  stage: Stage;
}

/** What the first events of an answer say that can be moved. */
export interface Beginning {
  identity: AnswerIdentity;
  promptIds: readonly number[];
}

/**
 * Reads the ids out of an answer's events, and takes them out where its caller did not ask for them.
 * Inside a JSON string the quotes would be escaped, so a match is real.
 */
export class TokenIds {
  readonly #isAsked: boolean;
  readonly #prompt: readonly number[] | null;
  #stage: Stage = 'running';
  #known = 0;
  #isLost = false;
  #isReasoning = false;
  #hasContent = false;
  /** Null until the first events have come, and where they do not tell it. */
  beginning: Beginning | null = null;
  #hasBegun = false;

  /**
   * @param isAsked the caller wants to see them
   * @param prompt ids that the caller wrote; null: the engine tells them
   */
  constructor(isAsked: boolean, prompt: readonly number[] | null = null) {
    this.#isAsked = isAsked;
    this.#prompt = prompt;
  }

  /** @param text of whole events, a character for each byte */
  push(text: string): TokensTold {
    if (!this.#hasBegun) this.#begin(Buffer.from(text, 'latin1').toString());
    const isMarked = MARKS.test(text);
    const { ids, rest } = taken(text);
    if (isMarked) this.#stage = laterOf(this.#stage, stageIn(text));
    const known = this.#follow(text, ids, isMarked);
    return {
      text: this.#isAsked ? text : isMarked ? forCaller(rest) : rest,
      ids: known,
      mayBeCut: !this.#isReasoning,
      stage: this.#stage,
    };
  }

  #begin(text: string): void {
    const json = jsonIn(text);
    if (json === null) return;
    this.#hasBegun = true;
    const event = objectIn(json);
    const [choice] = (Array.isArray(event.choices) ? event.choices : []) as Record<string, unknown>[];
    const promptIds = this.#prompt ?? event.prompt_token_ids ?? choice?.prompt_token_ids;
    const identity = identityOf(event);
    if (!Array.isArray(promptIds) || identity === null) return;
    this.#known = promptIds.length;
    this.beginning = { identity, promptIds };
  }

  /** @returns the ids; null: not all are known any more */
  #follow(text: string, ids: number[], isMarked: boolean): number[] | null {
    if (this.#isLost || this.beginning === null) return null;
    this.#known += ids.length;
    this.#isLost = this.#known > limits.MOVING_IDS || (isMarked && TOOL_CALLS.test(text));
    if (this.#isReasoning || (isMarked && REASONING.test(text))) this.#followReasoning(text);
    else this.#hasContent ||= CONTENT.test(text);
    return this.#isLost ? null : ids;
  }

  /** Reasoning that comes behind content is that of a parser which begins again. */
  #followReasoning(text: string): void {
    for (const event of splitEvents(text)) {
      const reasons = REASONING.test(event);
      this.#isLost ||= reasons && this.#hasContent;
      this.#hasContent ||= CONTENT.test(event);
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

/** The ids of the tokens in events, and the events without them and without those of the prompt. */
function taken(events: string): { ids: number[]; rest: string } {
  const ids: number[] = [];
  const rest = events.replace(IDS, (_, prompt: string | undefined, list: string) => {
    if (prompt !== undefined) return '"prompt_token_ids":null';
    for (const id of JSON.parse(list) as number[]) ids.push(id);
    return '"token_ids":null';
  });
  return { ids, rest };
}

function forCaller(events: string): string {
  if (!NO_DELTA.test(events) || !events.includes('token_ids"')) return events;
  return splitEvents(events).filter(isForCaller).join('');
}

/** Of tokens that a parser makes no text of vLLM tells nothing, unless it is asked for their ids. */
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

/** Whether the events of a continuation begin with the prompt that it was asked for. */
export function continuesFrom({ promptIds }: Beginning, asked: readonly number[]): boolean {
  return promptIds.length === asked.length && asked.every((id, at) => promptIds[at] === id);
}

/** The ids that a request brings as its prompt; null: it brings none. */
export function idsAsked(body: unknown): number[] | null {
  if (!isObject(body)) return null;
  const ids = Object(body.kv_transfer_params).prompt_token_ids ?? body.prompt ?? body.token_ids;
  return Array.isArray(ids) ? (ids as number[]) : null;
}
