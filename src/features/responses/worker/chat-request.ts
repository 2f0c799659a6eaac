import { fieldsOf } from '../../../protocol/index.ts';
import type { ToolOfCall } from '../event-maker.ts';
import { type Fields, unstoredResponseId } from '../types.ts';
import { messagesOf } from './chat-messages.ts';
import { choiceOf, toolsOf } from './chat-tools.ts';
import { Unsayable } from './unsayable.ts';

/** A request for a response as a chat, and what the response repeats of it. */
export interface ChatRequest {
  chat: Fields;
  /** The Response object, as far as it does not depend on the answer. */
  response: Fields;
  toolOf(name: string): ToolOfCall;
}

/** The fields of the Responses API. Any other is the engine's own, such as `top_k`, and goes on as it is. */
const RESPONSE_FIELDS: ReadonlySet<string> = new Set([
  ...['background', 'client_metadata', 'context_management', 'conversation', 'include', 'input'],
  ...[
    'instructions',
    'max_output_tokens',
    'max_tool_calls',
    'metadata',
    'moderation',
    'previous_response_id',
  ],
  ...['prompt', 'prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention', 'reasoning'],
  ...['request_id', 'safety_identifier', 'service_tier', 'store', 'stream', 'stream_options', 'text'],
  ...['tool_choice', 'tools', 'top_logprobs', 'truncation', 'user'],
]);

/** The fields that would need something that neither a chat has nor the gateway did, and what to do instead. */
const REFUSED: readonly [string, string][] = [
  ['previous_response_id', 'Ask the queue at /v1/responses, which knows earlier responses.'],
  ['conversation', 'Ask the queue at /v1/responses, which knows conversations.'],
  ['background', 'Ask the queue at /v1/responses, which runs responses in the background.'],
  ['prompt', 'Send the text of the prompt as the input.'],
];

/**
 * Translates a request for a response into one for a chat.
 * @throws Unsayable
 */
export function chatRequestOf(body: Fields): ChatRequest {
  for (const [name, where] of REFUSED)
    if (body[name] !== undefined && body[name] !== null && body[name] !== false)
      throw new Unsayable(`"${name}"`, name, where);
  const tools = toolsOf(body.tools);
  const { stream, max_output_tokens: maxTokens, top_logprobs: topLogprobs } = body;
  const { effort } = fieldsOf(body.reasoning);
  const format = formatOf(fieldsOf(body.text).format);
  const chat = {
    ...Object.fromEntries(Object.entries(body).filter(([name]) => !RESPONSE_FIELDS.has(name))),
    messages: messagesOf(body.instructions, body.input),
    ...choiceOf(body.tool_choice, tools),
    ...(format !== null && { response_format: format }),
    ...(isGiven(maxTokens) && { max_tokens: maxTokens }),
    ...(isGiven(effort) && { reasoning_effort: effort }),
    ...(wantsLogprobs(body) && {
      logprobs: true,
      ...(isGiven(topLogprobs) && { top_logprobs: topLogprobs }),
    }),
    ...(stream === true && { stream: true, stream_options: { include_usage: true } }),
  };
  return { chat, response: responseOf(body), toolOf: (name) => tools.toolOf(name) };
}

function wantsLogprobs({ include, top_logprobs: top }: Fields): boolean {
  return (Array.isArray(include) && include.includes('message.output_text.logprobs')) || Number(top ?? 0) > 0;
}

/** Returns the form of the text in a chat's words; null: any text. */
function formatOf(format: unknown): Fields | null {
  const { type, ...schema } = fieldsOf(format);
  if (type === undefined || type === 'text') return null;
  return type === 'json_schema' ? { type, json_schema: schema } : { type };
}

/** Returns what a Response object repeats of its request. */
function responseOf(body: Fields): Fields {
  const { request_id: id } = body;
  return {
    id: typeof id === 'string' && id.startsWith('resp_') ? id : unstoredResponseId(),
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    instructions: body.instructions ?? null,
    metadata: body.metadata ?? {},
    model: body.model ?? null,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    temperature: body.temperature ?? null,
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_p: body.top_p ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    reasoning: body.reasoning ?? null,
    text: body.text ?? { format: { type: 'text' } },
    truncation: body.truncation ?? 'disabled',
  };
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}
