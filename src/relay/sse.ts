import { type BrokenReason, openAIError } from '../protocol/index.ts';

const encoder = new TextEncoder();

/**
 * The last events of an event stream that cannot be finished, as vLLM ends one when its engine dies: an
 * error in OpenAI's shape, then the end mark. Clients of the OpenAI SDK raise it as an API error.
 */
export function brokenEvents(reason: BrokenReason): Uint8Array {
  const body = openAIError(`The answer broke off: ${reason.message}`, 'server_error', reason.code);
  return encoder.encode(`data: ${JSON.stringify(body)}\n\ndata: [DONE]\n\n`);
}
