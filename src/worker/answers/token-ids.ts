import {
  type AnswerIdentity,
  bounds,
  isObject,
  jsonIn,
  objectIn,
  STAGES,
  type Stage,
  splitEvents,
} from '../../protocol/index.ts';

/** Matches the token ids of the prompt, or of generated tokens. */
const IDS = /"(prompt_)?token_ids"\s*:\s*(\[[\d,\s]*\])/g;
/** Matches, in one pass, events that say more than the text of a token, and a few that do not. */
const MARKS = /_reason"\s*:\s*"|usage"|\[DONE\]|_calls"|reasoning|delta"\s*:\s*\{\s*\}/;
const FINISH = /"finish_reason"\s*:\s*"[^"]/;
const USAGE = /"usage"\s*:\s*\{/;
const DONE = /(?:^|[\r\n])data: ?\[DONE\]/;
const NO_DELTA = /"delta"\s*:\s*\{\s*\}/;
const LOGPROBS = /"logprobs"\s*:\s*\{/;
/** Matches calls of tools: their parser would begin anew elsewhere. */
const TOOL_CALLS = /"tool_calls"\s*:\s*\[\s*\{/;
const REASONING = /"(?:reasoning|reasoning_content)"\s*:\s*"[^"]/;
/** Matches content other than blanks: parsers of reasoning pass on what follows it unchanged. */
const CONTENT = /"content"\s*:\s*"(?:\s|\\[nrt])*(?:[^"\\\s]|\\[^nrt])/;

/** What some whole events of an answer say about its tokens. */
export interface TokensTold {
  /** The events as their caller gets them. */
  text: string;
  /**
   * The ids of the tokens generated in the events; null: not all ids are known any more, so the answer stays where it
   * is.
   */
  ids: number[] | null;
  /** True if the answer may be cut off after these events. */
  mayBeCut: boolean;
  stage: Stage;
}

/** What the first events of a movable answer say. */
export interface Beginning {
  identity: AnswerIdentity;
  promptIds: readonly number[];
}

/**
 * Reads the token ids out of an answer's events, and removes them where the caller did not request them. Inside a JSON
 * string the quotes would be escaped, so a match is real.
 */
export class TokenIds {
  readonly #isAsked: boolean;
  readonly #prompt: readonly number[] | null;
  #stage: Stage = 'running';
  #known = 0;
  #isLost = false;
  #isReasoning = false;
  #hasContent = false;
  /** The beginning of the answer; null before its first events, and where they do not tell it. */
  beginning: Beginning | null = null;
  #hasBegun = false;

  /**
   * @param isAsked whether the caller wants to see the ids
   * @param prompt the ids that the caller wrote; null: the engine tells them
   */
  constructor(isAsked: boolean, prompt: readonly number[] | null = null) {
    this.#isAsked = isAsked;
    this.#prompt = prompt;
  }

  /** Reads and cleans events. @param text whole events, one character for each byte */
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

  /** Follows the tokens of events. @returns their ids; null if not all ids are known any more */
  #follow(text: string, ids: number[], isMarked: boolean): number[] | null {
    if (this.#isLost || this.beginning === null) return null;
    this.#known += ids.length;
    this.#isLost = this.#known > bounds.MOVING_IDS || (isMarked && TOOL_CALLS.test(text));
    if (this.#isReasoning || (isMarked && REASONING.test(text))) this.#followReasoning(text);
    else this.#hasContent ||= CONTENT.test(text);
    return this.#isLost ? null : ids;
  }

  /** Follows reasoning: if it follows content, its parser has begun again, and the answer stays. */
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

/** Returns the ids of the tokens in events, and the events without these ids and without the prompt's. */
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

/**
 * Says whether a caller that requested no ids would get this event: vLLM sends none for tokens of which a parser makes
 * no text, unless their ids are requested.
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

/** Says whether the events of a continuation begin with the prompt that was sent. */
export function continuesFrom({ promptIds }: Beginning, asked: readonly number[]): boolean {
  return promptIds.length === asked.length && asked.every((id, at) => promptIds[at] === id);
}

/** Returns the ids that a request has as its prompt; null if it has none. */
export function idsAsked(body: unknown): number[] | null {
  if (!isObject(body)) return null;
  const ids = Object(body.kv_transfer_params).prompt_token_ids ?? body.prompt ?? body.token_ids;
  return Array.isArray(ids) ? (ids as number[]) : null;
}
