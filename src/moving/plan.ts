import { isObject, jsonOrText, limits, type MovePlan } from '../protocol/index.ts';
import { stopsOf } from './stop-hold.ts';

/**
 * Which answers may be moved: what was generated elsewhere goes on exactly as it would have here (docs/moving.md). All
 * is read from the caller's request, before the engine has it.
 */

const CHAT = /^\/v1\/chat\/completions$/;
const TEXT = /^\/v1\/completions$/;

/** What OpenAI's older route generates when its caller names no number. */
const TEXT_TOKENS = 16;

/** Fields that are about the prompt, which goes on as ids, and those that a continuation says anew. */
const LEFT_OUT: readonly string[] = [
  'messages',
  'prompt',
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

/** Why a request with such a field stays where it is. */
const KEPT_BY: readonly (readonly [field: string, stays: (value: unknown) => boolean, why: string])[] = [
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
  ['kv_transfer_params', isGiven, 'it hands a cache over'],
  ['return_token_ids', (value) => value === false || value === null, 'it wants no token ids'],
];

/** The plan of a request that may be moved, or why it stays where it is. */
export function movePlan(path: string, body: string | Uint8Array | undefined): MovePlan | string {
  const isChat = CHAT.test(path);
  if (!isChat && !TEXT.test(path)) return 'only chats and text completions are moved';
  if (body === undefined) return 'it has no body';
  if (body.length > limits.MOVING_BODY_BYTES) return 'its body is too long';
  const request = jsonOrText(typeof body === 'string' ? body : new TextDecoder().decode(body));
  if (!isObject(request)) return 'its body is no object';
  if (request.stream !== true) return 'it is not streamed';
  const kept = KEPT_BY.find(([field, stays]) => stays(request[field]));
  if (kept) return kept[2];
  if (isFilled(request.tools) && request.tool_choice !== 'none') return 'a call of a tool may be cut in two';
  if (!isChat && isGiven(request.logprobs)) return 'its logprobs count characters from its beginning';
  if (isChat ? !isTextOnly(request.messages) : !isOnePrompt(request.prompt))
    return 'its prompt is not one text';
  const field = isGiven(request.max_completion_tokens) ? 'max_completion_tokens' : 'max_tokens';
  const most = isChat ? request[field] : (request.max_tokens ?? TEXT_TOKENS);
  return {
    path,
    rest: Object.fromEntries(Object.entries(request).filter(([name]) => !LEFT_OUT.includes(name))),
    max_tokens: typeof most === 'number' ? most : null,
    max_tokens_field: isChat ? field : 'max_tokens',
    min_tokens: typeof request.min_tokens === 'number' ? request.min_tokens : 0,
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

/** Images and sounds are not among the ids of a prompt. */
function isTextOnly(messages: unknown): boolean {
  return Array.isArray(messages) && messages.every((message) => isText(Object(message).content));
}

function isText(content: unknown): boolean {
  if (!isGiven(content) || typeof content === 'string') return true;
  return Array.isArray(content) && content.every((part) => Object(part).type === 'text');
}

/** A text, or the ids of one. */
function isOnePrompt(prompt: unknown): boolean {
  if (typeof prompt === 'string') return true;
  return Array.isArray(prompt) && prompt.length > 0 && prompt.every((id) => typeof id === 'number');
}
