import { bounds, type EngineRoute, isObject, jsonOrText, type MovePlan, routeAt } from '../protocol/index.ts';

/** The largest number that a request may hold. */
const MOST = 1e9;
/** The longest list of token ids: it may name a whole vocabulary, and no vocabulary is larger. */
const MOST_IDS = 300_000;
const MOST_ENTRIES = 1024;
const MOST_CHARACTERS = 4096;

type Check = (value: unknown) => boolean;

const isNumber: Check = (value) => typeof value === 'number' && Math.abs(value) <= MOST;
const isFlag: Check = (value) => typeof value === 'boolean';
const isShortText: Check = (value) => typeof value === 'string' && value.length <= MOST_CHARACTERS;
const isList = (most: number, check: Check): Check => {
  return (value) => Array.isArray(value) && value.length <= most && value.every(check);
};
const isRecord = (check: Check): Check => {
  return (value) =>
    isObject(value) && Object.keys(value).length <= MOST_ENTRIES && Object.values(value).every(check);
};
const isEither = (...checks: Check[]): Check => {
  return (value) => checks.some((check) => check(value));
};

/** The members that say how an engine chooses and reports tokens, with a check of their values. */
const SAMPLING: readonly (readonly [check: Check, names: readonly string[]])[] = [
  [
    isNumber,
    [
      ...['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'length_penalty', 'n', 'best_of'],
      ...['presence_penalty', 'frequency_penalty', 'top_logprobs', 'max_tokens', 'min_tokens'],
    ],
  ],
  [isEither(isNumber, isFlag), ['logprobs']],
  [
    isFlag,
    [
      ...['ignore_eos', 'skip_special_tokens', 'spaces_between_special_tokens', 'detokenize'],
      ...['include_stop_str_in_output', 'include_reasoning', 'return_tokens_as_token_ids', 'use_beam_search'],
      ...['skip_reading_prefix_cache', 'flat_logprobs', 'echo', 'include_prompt'],
    ],
  ],
  [isEither(isShortText, isList(MOST_ENTRIES, isShortText)), ['stop', 'bad_words', 'suffix']],
  [isList(MOST_IDS, isNumber), ['stop_token_ids', 'allowed_token_ids', 'logprob_token_ids']],
  [isRecord(isNumber), ['logit_bias']],
  [isList(0, isShortText), ['logits_processors']],
  [isRecord(isShortText), ['response_format']],
];

const REQUEST: typeof SAMPLING = [
  ...SAMPLING,
  [isFlag, ['stream', 'store', 'return_token_ids']],
  [isRecord(isFlag), ['stream_options']],
  [isNumber, ['priority']],
  [
    isShortText,
    [
      ...['model', 'user', 'service_tier', 'cache_salt', 'request_id', 'output_mode', 'reasoning_effort'],
      ...['prompt_cache_key', 'conversation', 'safety_identifier'],
    ],
  ],
  [isRecord(isEither(isShortText, isNumber, isFlag)), ['metadata']],
  [isList(0, isShortText), ['content_parts']],
];

const CHECKS = { request: checksOf(REQUEST), sampling: checksOf(SAMPLING) };

function checksOf(table: typeof SAMPLING): ReadonlyMap<string, Check> {
  return new Map(table.flatMap(([check, names]) => names.map((name) => [name, check] as const)));
}

/**
 * Returns why a request with these members is not made again elsewhere, or null where all of them are known and in
 * bounds. An unknown member might change how the answer goes on, or make an engine do something else.
 */
export function unknownMember(rest: Record<string, unknown>): string | null {
  const { sampling_params, ...request } = rest;
  const own = unknownIn(request, CHECKS.request);
  if (own !== null || sampling_params === undefined) return own;
  return isObject(sampling_params)
    ? unknownIn(sampling_params, CHECKS.sampling)
    : 'sampling_params is unknown';
}

function unknownIn(members: Record<string, unknown>, checks: ReadonlyMap<string, Check>): string | null {
  for (const [name, value] of Object.entries(members)) {
    if (value === null || value === undefined) continue;
    if (!checks.get(name)?.(value)) return `what its ${name.slice(0, 64)} asks for is not known here`;
  }
  return null;
}

/*
 * This part decides which answers may be moved: those whose rest is generated elsewhere exactly as it would be here
 * (docs/moving.md). All is read from the caller's request, before the engine has it.
 */

export type Route = NonNullable<EngineRoute['moves']>;

/**
 * Returns the form of a route's answers; undefined if they are not moved.
 * @param path the path of a request, or of its plan
 */
export function routeOf(path: string): Route | undefined {
  return routeAt(path)?.moves ?? undefined;
}

/** The tokens that OpenAI's older route generates when its caller names no number. */
export const TEXT_TOKENS = 16;

/** The fields about the prompt, which goes on as ids, and those that a continuation states anew. */
const LEFT_OUT: readonly string[] = [
  'messages',
  'prompt',
  'token_ids',
  'max_tokens',
  'max_completion_tokens',
  'min_tokens',
  'chat_template',
  'chat_template_kwargs',
  'documents',
  'add_generation_prompt',
  'continue_final_message',
  'add_special_tokens',
  'truncate_prompt_tokens',
  'echo',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'return_token_ids',
  'kv_transfer_params',
];

type KeptBy = readonly [field: string, stays: (value: unknown) => boolean, why: string];

/** The fields for which a request stays where it is, whatever its route, each with the reason. */
const KEPT_ANYWHERE: readonly KeptBy[] = [
  ['seed', isGiven, 'a seed begins anew'],
  ['presence_penalty', isNonZero, 'presence_penalty counts the output of one engine'],
  ['frequency_penalty', isNonZero, 'frequency_penalty counts the output of one engine'],
  ['n', (value) => isGiven(value) && value !== 1, 'it has several choices'],
  ['best_of', (value) => isGiven(value) && value !== 1, 'it has several choices'],
  ['use_beam_search', Boolean, 'a beam search begins anew'],
  ['stop', (value) => stopsOf(value) === null, 'its stop strings cannot be looked for'],
  ['bad_words', isFilled, 'a forbidden word may have begun before the cut'],
  ['response_format', (value) => isGiven(value) && Object(value).type !== 'text', 'a grammar begins anew'],
  ['structured_outputs', isGiven, 'a grammar begins anew'],
  ['guided_json', isGiven, 'a grammar begins anew'],
  ['guided_regex', isGiven, 'a grammar begins anew'],
  ['guided_choice', isGiven, 'a grammar begins anew'],
  ['guided_grammar', isGiven, 'a grammar begins anew'],
  ['echo', Boolean, 'it repeats its prompt'],
  ['suffix', isFilled, 'it fills in a middle'],
  ['prompt_logprobs', isGiven, 'it tells probabilities of its prompt'],
  ['prompt_embeds', isGiven, 'its prompt is no text'],
  ['thinking_token_budget', isGiven, 'a budget of thinking begins anew'],
  ['logits_processors', isFilled, 'it is sampled by processors of its own'],
  ['vllm_xargs', isFilled, 'it has arguments of its own for the engine'],
  ['repetition_detection', isGiven, 'repetitions are looked for in the output of one engine'],
  ['extra_args', isFilled, 'it has arguments of its own for the engine'],
  ['kv_transfer_params', isGiven, 'it hands a cache over'],
  ['ec_transfer_params', isGiven, 'it hands a cache over'],
];

const WANTS_NO_IDS: KeptBy = [
  'return_token_ids',
  (value) => value === false || value === null,
  'it wants no token ids',
];

const KEPT_BY: Record<Route, readonly KeptBy[]> = {
  chat: [
    ...KEPT_ANYWHERE,
    WANTS_NO_IDS,
    // With hidden reasoning, vLLM sends no ids for the whole answer.
    ['include_reasoning', (value) => isGiven(value) && value !== true, 'its reasoning is hidden'],
  ],
  text: [
    ...KEPT_ANYWHERE,
    WANTS_NO_IDS,
    ['logprobs', isGiven, 'its logprobs count characters from its beginning'],
  ],
  // A caller of this route gets each token at once, even where the engine holds its text back.
  tokens: [
    ...KEPT_ANYWHERE,
    ['stop', isFilled, 'a stop string may have begun before the cut'],
    ['output_mode', (value) => isGiven(value) && value !== 'tokens', 'its text comes behind its tokens'],
    ['features', isGiven, 'its prompt is not one text'],
    ['content_parts', isFilled, 'its prompt is not one text'],
  ],
};

/** Returns the plan of a request that may be moved, or why it stays where it is. */
export function movePlan(path: string, body: string | Uint8Array | undefined): MovePlan | string {
  const route = routeOf(path);
  if (route === undefined) return 'answers of its route are not moved';
  if (body === undefined) return 'it has no body';
  if (body.length > bounds.MOVING_BODY_BYTES) return 'its body is too long';
  const request = jsonOrText(typeof body === 'string' ? body : new TextDecoder().decode(body));
  if (!isObject(request)) return 'its body is no object';
  if (request.stream !== true) return 'it is not streamed';
  const fields = route === 'tokens' ? { ...request, ...Object(request.sampling_params) } : request;
  const kept = KEPT_BY[route].find(([field, stays]) => stays(fields[field]));
  if (kept) return kept[2];
  if (isFilled(request.tools) && request.tool_choice !== 'none') return 'a call of a tool may be cut in two';
  if (!hasOneText(route, request)) return 'its prompt is not one text';
  const isLaterName = route === 'chat' && isGiven(request.max_completion_tokens);
  const field = isLaterName ? 'max_completion_tokens' : 'max_tokens';
  const most = fields[field] ?? (route === 'text' ? TEXT_TOKENS : null);
  const rest = Object.fromEntries(Object.entries(request).filter(([name]) => !LEFT_OUT.includes(name)));
  const unknown = unknownMember(rest);
  if (unknown !== null) return unknown;
  return {
    path,
    rest,
    max_tokens: typeof most === 'number' ? most : null,
    max_tokens_field: field,
    min_tokens: typeof fields.min_tokens === 'number' ? fields.min_tokens : 0,
    includes_usage: Object(request.stream_options).include_usage === true,
  };
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isNonZero(value: unknown): boolean {
  return isGiven(value) && value !== 0;
}

function isFilled(value: unknown): boolean {
  return isGiven(value) && value !== '' && !(Array.isArray(value) && value.length === 0);
}

function hasOneText(route: Route, { messages, prompt, token_ids }: Record<string, unknown>): boolean {
  return route === 'chat' ? isTextOnly(messages) : isOnePrompt(route === 'text' ? prompt : token_ids);
}

/** Says whether all messages are text: images and sounds are not among the ids of a prompt. */
function isTextOnly(messages: unknown): boolean {
  return Array.isArray(messages) && messages.every((message) => isText(Object(message).content));
}

function isText(content: unknown): boolean {
  if (!isGiven(content) || typeof content === 'string') return true;
  return Array.isArray(content) && content.every((part) => Object(part).type === 'text');
}

/** Says whether a prompt is one text, or the ids of one. */
function isOnePrompt(prompt: unknown): boolean {
  if (typeof prompt === 'string') return true;
  return Array.isArray(prompt) && prompt.length > 0 && prompt.every((id) => typeof id === 'number');
}

/** The most characters of all stop strings together: each event is compared with all their beginnings. */
const MOST_STOP_CHARACTERS = 1024;

/**
 * Returns the stop strings of a request; null if they cannot be looked for, as no engine accepts them or they are too
 * long.
 */
export function stopsOf(stop: unknown): string[] | null {
  const stops = stop === undefined || stop === null ? [] : Array.isArray(stop) ? stop : [stop];
  if (!stops.every((one) => typeof one === 'string')) return null;
  const total = stops.reduce((sum, { length }) => sum + length, 0);
  return total > MOST_STOP_CHARACTERS ? null : stops.filter((one) => one !== '');
}
