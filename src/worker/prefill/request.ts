import type { EngineCall } from '../../engine/client/types.ts';
import { fieldsOf, type JsonEdits, jsonOrText, routeAt, withMembers } from '../../protocol/index.ts';

/** The part of the prefill engine's answer that the decoding engine needs. */
export interface Prefill {
  /** The names and places of the blocks in the prefill engine's cache; passed on unchanged. */
  params: Record<string, unknown>;
  /** The ids of the prompt that the blocks hold. */
  promptIds: readonly number[];
}

/**
 * A prompt shorter than this is prefilled faster than it is handed over: about a thousand tokens, at four bytes a token
 * as in most texts.
 */
const SHORTEST_PROMPT_BYTES = 4096;
const TOKEN_BYTES = 4;

/**
 * Members that request one token of an answer nobody reads; fields that do not go with that, or cost time, are removed.
 */
const PREFILLED = asJson({
  max_tokens: 1,
  max_completion_tokens: 1,
  min_tokens: 0,
  stream: false,
  stream_options: null,
  logprobs: null,
  top_logprobs: null,
  return_token_ids: true,
  kv_transfer_params: {
    do_remote_decode: true,
    do_remote_prefill: false,
    remote_engine_id: null,
    remote_block_ids: null,
    remote_host: null,
    remote_port: null,
  },
});

/**
 * A request with one of these fields runs whole: its answer is more than one text, or the same engine must have
 * computed its prompt.
 */
const ONLY_WITHOUT = [
  'kv_transfer_params',
  'echo',
  'suffix',
  'prompt_logprobs',
  'prompt_embeds',
  'use_beam_search',
] as const;

/** A request whose prompt another engine may prefill. */
export interface Prefillable {
  call: EngineCall;
  body: string | Uint8Array;
  /** The length of the prompt in tokens, estimated from its bytes. */
  tokens: number;
  isStream: boolean;
}

/**
 * Returns the request if another engine may prefill its prompt: a chat or a text completion of one choice, whose prompt
 * is one long text or list of ids. Returns null if the request runs whole.
 */
export function prefillable(call: EngineCall): Prefillable | null {
  const { method, path, body } = call;
  const form = routeAt(path)?.generates;
  if (method !== 'POST' || (form !== 'chat' && form !== 'text')) return null;
  if (body === undefined || body.length < SHORTEST_PROMPT_BYTES) return null;
  const fields = fieldsOf(jsonOrText(typeof body === 'string' ? body : Buffer.from(body).toString()));
  if (ONLY_WITHOUT.some((name) => fields[name])) return null;
  if ([fields.n, fields.best_of].some((choices) => (choices ?? 1) !== 1)) return null;
  // With a limit of one token nothing is left to decode.
  if ((fields.max_completion_tokens ?? fields.max_tokens) === 1) return null;
  const bytes = form === 'text' ? promptBytes(fields.prompt) : chatBytes(fields);
  if (bytes < SHORTEST_PROMPT_BYTES) return null;
  return { call, body, tokens: Math.ceil(bytes / TOKEN_BYTES), isStream: fields.stream === true };
}

/** Returns the length of a text prompt, bytes; 0: it is not one prompt. */
function promptBytes(prompt: unknown): number {
  if (typeof prompt === 'string') return Buffer.byteLength(prompt);
  return Array.isArray(prompt) && prompt.every(Number.isInteger) ? prompt.length * TOKEN_BYTES : 0;
}

/** Returns the length of a chat, bytes; 0: it is not text alone, and ids do not show what else it holds. */
function chatBytes({ messages, tools }: Record<string, unknown>): number {
  if (!Array.isArray(messages) || !messages.every(isText)) return 0;
  return Buffer.byteLength(JSON.stringify([messages, tools]));
}

function isText(message: unknown): boolean {
  const { content } = fieldsOf(message);
  return !Array.isArray(content) || content.every((part) => fieldsOf(part).type === 'text');
}

/** Returns the call to the prefill engine: every byte outside the members of PREFILLED is unchanged. */
export function prefillCall({ call, body }: Prefillable, signal: AbortSignal): EngineCall {
  return { ...call, body: withMembers(body, PREFILLED), signal };
}

/** Returns members with each value written as JSON. */
function asJson(members: object): JsonEdits {
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [name, JSON.stringify(value)]));
}

/** Reads the prefill engine's answer; null: it holds nothing that another engine could continue from. */
export function readPrefill(text: string): Prefill | null {
  const answer = fieldsOf(jsonOrText(text));
  const choice = Array.isArray(answer.choices) ? fieldsOf(answer.choices[0]) : {};
  const promptIds = answer.prompt_token_ids ?? choice.prompt_token_ids;
  const params = fieldsOf(answer.kv_transfer_params);
  if (params.do_remote_prefill !== true || !isIds(promptIds)) return null;
  // Blocks of a shorter prompt would crash the engine that reads them.
  const held = params.remote_num_tokens ?? promptIds.length;
  return held === promptIds.length ? { params, promptIds } : null;
}

function isIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every(Number.isInteger);
}

/**
 * Returns the call to the decoding engine: its prompt is the ids that were prefilled, whatever that engine would make
 * of the text.
 */
export function decodeCall(
  { call, body }: Prefillable,
  { params, promptIds }: Prefill,
  signal: AbortSignal,
): EngineCall {
  const members =
    routeAt(call.path)?.generates === 'text'
      ? { prompt: promptIds, kv_transfer_params: params }
      : { kv_transfer_params: { ...params, prompt_token_ids: promptIds } };
  return { ...call, body: withMembers(body, asJson(members)), signal };
}
