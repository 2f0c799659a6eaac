import type { Usage } from '../../protocol/index.ts';
import { randomText } from '../../protocol/random-text.ts';
import { RESPONSE_STATUSES } from '../../protocol/response-statuses.ts';

/** Describes responses, items and conversations as OpenAI's API has them (openai-openapi 2.3.0). */

export type Fields = Record<string, unknown>;

/**
 * The states of a response.
 *
 * - `queued`      → `in_progress` (a worker has it), `cancelled`, `failed`; only in the background
 * - `in_progress` → `completed`, `incomplete`, `failed`, `cancelled`
 * - `completed`, `incomplete`, `failed` and `cancelled` are final.
 */
export type ResponseStatus = (typeof RESPONSE_STATUSES)[number];
export type FinalStatus = Exclude<ResponseStatus, 'queued' | 'in_progress'>;

export function isFinal(status: string): status is FinalStatus {
  const isRunning = status === 'queued' || status === 'in_progress';
  return !isRunning && (RESPONSE_STATUSES as readonly string[]).includes(status);
}

/** One item of an input or an output: a message, a call of a function, its output, a reasoning, … */
export interface Item extends Fields {
  id: string;
  type: string;
}

/** A new item, with what the caller or the engine wrote of it. */
export interface NewItem {
  id: string;
  /** The JSON as it was given, without an id that was only made here, since engines need not know it. */
  json: string;
}

/** The beginnings of ids, by the type of an item. */
const PREFIXES: Record<string, string> = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  function_call_output: 'fco',
  custom_tool_call: 'ctc',
  custom_tool_call_output: 'ctco',
};
const OTHER_PREFIX = 'item';

const HEX = '0123456789abcdef';
const ID_DIGITS = 32;

/** Makes the id of an answer to a job, which no one can ask for by it: the queue names the responses that it stores. */
export function unstoredResponseId(): string {
  return `resp_${randomText(ID_DIGITS, HEX)}`;
}

export function newItemId(type: string): string {
  return `${PREFIXES[type] ?? OTHER_PREFIX}_${randomText(ID_DIGITS, HEX)}`;
}

/** A refusal in OpenAI's form. */
export interface Refusal {
  status: number;
  message: string;
  code: string | null;
  /** The parameter that is at fault; null: none. */
  param: string | null;
}

/** A response that a caller asks for, as far as it concerns what is stored. */
export interface NewResponse {
  id: string;
  tenant: string | null;
  /** The name of the caller's token. */
  token_name: string | null;
  model: string | null;
  /** The items of the request's own input. */
  input: NewItem[];
  previous_response_id: string | null;
  conversation: string | null;
  background: boolean;
  stream: boolean;
  store: boolean;
  /** The Response object as it begins, without status and output, as JSON. */
  echo: string;
}

/** The items that came before the input of a response, in their order, as JSON. */
export interface Prepared {
  history: string[];
}

/** The request and the bounds under which the caller of a response asks for it. */
export interface CallerTerms {
  /** The caller's request, as the queue knows it. */
  job: string;
  /** The most bytes that may be stored for its tenant; null: any. */
  stored_bytes: number | null;
  /** The most bytes that the items before its own input may have: an engine is sent them with it. */
  history_bytes: number;
}

/** The end of a response, as its engine or the gateway made it. */
export interface EndedResponse {
  status: FinalStatus;
  /** The Response object without its output, as JSON. */
  body: string;
  output: NewItem[];
}

/** A page of items. */
export interface ItemsWanted {
  after: string | null;
  limit: number;
  order: 'asc' | 'desc';
}

/** Returns the usage of a Response object. */
export function usageOf({
  prompt_tokens: input,
  completion_tokens: output,
  cached_tokens = 0,
  reasoning_tokens = 0,
}: Usage): Fields {
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens },
    total_tokens: input + output,
  };
}
