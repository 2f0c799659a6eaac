import { isObject } from '../protocol/index.ts';

/** The largest number that a request may hold. */
const MOST = 1e9;
/** The longest list of token ids: it may name a whole vocabulary, and no vocabulary is larger. */
const MOST_IDS = 300_000;
const MOST_ENTRIES = 1024;
const MOST_CHARACTERS = 4096;

type Check = (value: unknown) => boolean;

const isNumber: Check = (value) => typeof value === 'number' && Math.abs(value) <= MOST;
const isFlag: Check = (value) => typeof value === 'boolean';
const isText: Check = (value) => typeof value === 'string' && value.length <= MOST_CHARACTERS;
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
  [isEither(isText, isList(MOST_ENTRIES, isText)), ['stop', 'bad_words', 'suffix']],
  [isList(MOST_IDS, isNumber), ['stop_token_ids', 'allowed_token_ids', 'logprob_token_ids']],
  [isRecord(isNumber), ['logit_bias']],
  [isList(0, isText), ['logits_processors']],
  [isRecord(isText), ['response_format']],
];

const REQUEST: typeof SAMPLING = [
  ...SAMPLING,
  [isFlag, ['stream', 'store', 'return_token_ids']],
  [isRecord(isFlag), ['stream_options']],
  [isNumber, ['priority']],
  [
    isText,
    [
      ...['model', 'user', 'service_tier', 'cache_salt', 'request_id', 'output_mode', 'reasoning_effort'],
      ...['prompt_cache_key', 'conversation', 'safety_identifier'],
    ],
  ],
  [isRecord(isEither(isText, isNumber, isFlag)), ['metadata']],
  [isList(0, isText), ['content_parts']],
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
