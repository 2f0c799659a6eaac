import {
  beginsObject,
  type EngineRoute,
  jsonFields,
  type RequestCost,
  routeLike,
} from '../protocol/index.ts';
import { isNull, readingJson } from './json.ts';

/** The fields that make up an engine's prompt, in the order in which chat templates write them. */
export const PROMPT_FIELDS = [
  'tools',
  'system',
  'instructions',
  'messages',
  'prompt',
  'token_ids',
  'input',
] as const;

/** The fields that name a conversation: the first of them that a body has counts. */
export const SESSION_FIELDS = ['conversation', 'prompt_cache_key', 'user'] as const;

/** The fields of a body that make up its prompt or name its conversation, as JSON. */
export type PromptFields = Partial<
  Record<(typeof PROMPT_FIELDS)[number] | (typeof SESSION_FIELDS)[number], Uint8Array>
>;

export const LENGTH_FIELDS = [
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'n_predict',
  'n',
  'n_cmpl',
  'best_of',
  'messages',
  'prompt',
  'prompt_embeds',
  'sampling_params',
  'input',
  'inputs',
  'texts',
  'documents',
  'query',
  'queries',
  'text_1',
  'text_2',
  'items',
] as const;

/** The fields of a body that decide lengths, as JSON. */
export type LengthFields = Partial<Record<(typeof LENGTH_FIELDS)[number], Uint8Array>>;

/** The lengths of a request's prompts, and the bounds of its answers. */
export interface Lengths {
  /** Estimated tokens of all prompts together. */
  input: number;
  prompts: number;
  /** The number of answers that are generated to all prompts; 0: nothing is generated. */
  answers: number;
  /** The most tokens of one answer; null: the caller sets no bound. */
  most: number | null;
}

/** Estimated bytes of JSON for each token of a prompt: English has four characters a token, most others fewer. */
const BYTES_A_TOKEN = 4;
/** The tokens assumed for an answer whose caller sets no bound, where the model's length is unknown. */
const UNBOUNDED = 4096;
/** The longest number that is read: no number that a caller means is longer. */
const NUMBER_BYTES = 32;
/** The most answers that vLLM gives to one prompt. */
const MOST_ANSWERS = 16_384;
/** The largest estimate: a higher number would mean nothing. */
const MOST_TOKENS = 1_000_000_000_000;

const decoder = new TextDecoder();
const [QUOTE, BACKSLASH, ZERO, NINE] = [0x22, 0x5c, 0x30, 0x39];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

type Field = (typeof LENGTH_FIELDS)[number];

type Generates = Exclude<EngineRoute['generates'], 'invocation' | null>;

/** The fields that engines read on a route. */
interface Reads {
  /**
   * The fields that bound an answer; of several that are given the largest counts, since engines differ in which takes
   * precedence.
   */
  bounds: readonly Field[];
  /** The fields that say how many answers one prompt gets. */
  answers: readonly Field[];
  /** The fields that may hold several prompts. */
  prompts: readonly Field[];
}

const CHAT: Reads = {
  bounds: ['max_completion_tokens', 'max_tokens', 'n_predict'],
  answers: ['n', 'n_cmpl', 'best_of'],
  prompts: [],
};
const TEXT: Reads = {
  bounds: ['max_tokens', 'n_predict'],
  answers: ['n', 'n_cmpl', 'best_of'],
  prompts: ['prompt', 'prompt_embeds'],
};

/** The forms of requests whose answers are generated token by token. */
const READS: Record<Generates, Reads> = {
  chat: CHAT,
  chats: { ...CHAT, prompts: ['messages'] },
  text: TEXT,
  tokens: { bounds: ['max_tokens'], answers: ['n'], prompts: [] },
  response: { bounds: ['max_output_tokens'], answers: [], prompts: [] },
  message: { bounds: ['max_tokens'], answers: [], prompts: [] },
};

/** The fields that may be lists of prompts where nothing is generated: texts to embed, to classify, to compare. */
const TEXTS: readonly Field[] = [
  'input',
  'inputs',
  'texts',
  'documents',
  'queries',
  'text_1',
  'text_2',
  'items',
  'prompt',
];
/** The fields whose single text engines read again with each of the texts that it is compared with. */
const COMPARED: readonly Field[] = ['query', 'queries', 'text_1'];

/**
 * Estimates the lengths of a request from its body, before it runs: the prompts by their bytes, the answers by the
 * caller's bound. Only those fields count that engines read on the route: any other field would be a bound without
 * effect. What the request did cost is counted when it ends (docs/sharing.md).
 * @param path with or without a query
 * @param bytes the length of the body; 0 where it is no JSON
 * @throws RequestFault where a part of the JSON cannot be read
 */
export function lengthsOf(path: string, bytes: number, given: LengthFields): Lengths {
  const input = Math.ceil(bytes / BYTES_A_TOKEN);
  const form = formOf(path, given);
  if (form === null) return withoutAnswers(bytes, given);
  const reads = READS[form];
  const fields = form === 'tokens' ? samplingIn(given) : given;
  const answers = Math.max(
    1,
    ...reads.answers.map((name) => Math.min(numberIn(fields[name]) ?? 1, MOST_ANSWERS)),
  );
  const prompts = reads.prompts.reduce((sum, name) => sum + promptsIn(name, given[name]), 0);
  return {
    input,
    prompts: Math.max(1, prompts),
    answers: answers * Math.max(1, prompts),
    most: boundIn(fields, reads),
  };
}

/** Returns what `lengthsOf` returns as `most`. @throws RequestFault where a part of the JSON cannot be read */
export function boundOf(path: string, given: LengthFields): number | null {
  const form = formOf(path, given);
  return form === null ? null : boundIn(form === 'tokens' ? samplingIn(given) : given, READS[form]);
}

function boundIn(fields: LengthFields, { bounds }: Reads): number | null {
  let most = 0;
  for (const name of bounds) most = Math.max(most, numberIn(fields[name]) ?? 0);
  return most === 0 || most === Number.POSITIVE_INFINITY ? null : most;
}

function withoutAnswers(bytes: number, given: LengthFields): Lengths {
  const prompts = Math.max(1, ...TEXTS.map((name) => promptsIn(name, given[name])));
  const ones = COMPARED.filter((name) => promptsIn(name, given[name]) === 1);
  const compared = ones.reduce((sum, name) => sum + given[name]!.byteLength, 0);
  const input = Math.ceil((bytes + compared * (prompts - 1)) / BYTES_A_TOKEN);
  return { input, prompts, answers: 0, most: null };
}

/**
 * Estimates the most that a request may cost.
 * @param modelLength the tokens that prompt and answer may have together; null: unknown
 */
export function costOf(lengths: Lengths, modelLength: number | null): RequestCost {
  return { tokens: tokensOf(lengths, modelLength) };
}

/**
 * Estimates the most tokens that a request may cost.
 * @param modelLength the tokens that prompt and answer may have together; null: unknown
 */
function tokensOf({ input, prompts, answers, most }: Lengths, modelLength: number | null): number {
  const longest = modelLength ?? Number.POSITIVE_INFINITY;
  const asked = Math.min(input, longest * prompts);
  if (answers === 0) return Math.min(asked, MOST_TOKENS);
  const output = Math.min(most ?? modelLength ?? UNBOUNDED, longest);
  // A body of many bytes may hold a shorter prompt, so its answers are counted with the room that the prompt seems to
  // fill.
  const prompt = Math.min(asked, Math.max(0, longest - output) * prompts);
  return Math.min(prompt + output * answers, MOST_TOKENS);
}

function formOf(path: string, { messages }: LengthFields): Generates | null {
  const form = routeLike(path)?.generates ?? null;
  if (form !== 'invocation') return form;
  return messages === undefined ? 'text' : 'chat';
}

function samplingIn({ sampling_params }: LengthFields): LengthFields {
  return beginsObject(sampling_params) ? readingJson(() => jsonFields(sampling_params, LENGTH_FIELDS)) : {};
}

/**
 * Counts prompts: a text or a list of token ids is one; in a list of texts, of lists or of conversations, each is one.
 */
function promptsIn(name: Field, json: Uint8Array | undefined): number {
  if (json === undefined || isNull(json)) return 0;
  if (json[0] !== OPEN_BRACKET) return 1;
  const { texts, lists, objects, hasIds } = elementsOf(json);
  return name === 'messages' ? lists : texts + lists + objects + (hasIds ? 1 : 0);
}

/** Counts what an array holds, without making a view of each of perhaps a hundred thousand token ids. */
function elementsOf(array: Uint8Array) {
  const found = { texts: 0, lists: 0, objects: 0, hasIds: false };
  let depth = 0;
  for (let at = 0; at < array.length; at++) {
    const byte = array[at] as number;
    if (byte === QUOTE) {
      if (depth === 1) found.texts += 1;
      at += 1;
      while (at < array.length && array[at] !== QUOTE) at += array[at] === BACKSLASH ? 2 : 1;
    } else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) {
      depth += 1;
      if (depth === 2) found[byte === OPEN_BRACKET ? 'lists' : 'objects'] += 1;
    } else if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) depth -= 1;
    else if (depth === 1 && byte >= ZERO && byte <= NINE) found.hasIds = true;
  }
  return found;
}

/**
 * Reads a number as engines do, some of which accept texts and `true` too; undefined if there is none. A value that
 * cannot be read sets no bound: the engine refuses it, or ignores it.
 */
function numberIn(json: Uint8Array | undefined): number | undefined {
  if (json === undefined) return undefined;
  const text = json.byteLength > NUMBER_BYTES ? '' : decoder.decode(json);
  if (text === 'null') return undefined;
  const number = text === 'true' ? 1 : Number(text.replace(/^"\s*|\s*"$/g, '').replaceAll('_', '') || 'none');
  return number >= 1 ? Math.ceil(number) : Number.POSITIVE_INFINITY;
}
