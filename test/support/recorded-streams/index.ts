import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** How a recorded stream ends: whole, cut, given up by its engine, or with an error of this status and message. */
export type RecordedEnd = 'whole' | 'cut' | 'given up' | { status: number; message: string };

const CHAT = '/v1/chat/completions';
const MESSAGES = '/v1/messages';
const RESPONSES = '/v1/responses';

/**
 * What engines write, made by hand after their sources: the name of the file beside this one, the route, and how it is
 * to be taken.
 */
export const RECORDED: readonly (readonly [name: string, path: string, end: RecordedEnd])[] = [
  ['vllm-chat', CHAT, 'whole'],
  ['vllm-engine-dead', CHAT, { status: 500, message: 'EngineCore encountered an issue' }],
  ['vllm-aborted', CHAT, 'given up'],
  ['vllm-cut', CHAT, 'cut'],
  ['vllm-old-error', CHAT, { status: 400, message: 'the prompt is too long' }],
  ['vllm-messages', MESSAGES, 'whole'],
  ['messages-without-stop', MESSAGES, 'whole'],
  ['messages-cut', MESSAGES, 'cut'],
  ['messages-error', MESSAGES, { status: 503, message: 'Overloaded' }],
  ['vllm-responses', RESPONSES, 'whole'],
  ['responses-incomplete', RESPONSES, 'whole'],
  ['responses-failed', RESPONSES, { status: 429, message: 'slow down' }],
  ['responses-error', RESPONSES, { status: 500, message: 'it broke' }],
  ['responses-cut', RESPONSES, 'cut'],
  ['tgi-chat', CHAT, 'whole'],
  ['tgi-error', CHAT, { status: 500, message: 'Request failed during generation: CUDA out of memory' }],
  ['tgi-error-openai', CHAT, { status: 422, message: 'Input validation error: too long' }],
  ['tgi-cut', CHAT, 'cut'],
  ['llama-cpp-chat', CHAT, 'whole'],
  ['llama-cpp-error', CHAT, { status: 500, message: 'context shift is disabled' }],
  ['llama-cpp-error-before-2025', CHAT, { status: 500, message: 'slot unavailable' }],
  ['ik-llama-chat', CHAT, 'whole'],
  ['mlc-chat', CHAT, 'whole'],
  ['sglang-chat', CHAT, 'whole'],
  ['sglang-error', CHAT, { status: 400, message: 'The input (9 tokens) is longer' }],
  ['sglang-aborted', CHAT, 'given up'],
  ['ollama-chat', CHAT, 'whole'],
  ['ollama-error', CHAT, { status: 500, message: 'llama runner process has terminated' }],
  ['fastdeploy-chat', CHAT, 'whole'],
  ['fastdeploy-recovered', CHAT, 'given up'],
  ['fastdeploy-error', CHAT, { status: 400, message: 'request too long' }],
  ['openrouter-chat', CHAT, 'whole'],
  ['openrouter-error', CHAT, { status: 429, message: 'Provider is rate limited' }],
  ['openrouter-error-in-choice', CHAT, { status: 502, message: 'Provider disconnected' }],
  ['reason-error-alone', CHAT, { status: 500, message: 'does not say why' }],
  ['empty-reasons', CHAT, 'whole'],
  ['empty-reasons-cut', CHAT, 'cut'],
  ['crlf-chat', CHAT, 'whole'],
  ['null-errors', CHAT, 'whole'],
  ['error-in-text', CHAT, 'whole'],
  ['nan-in-logprobs', CHAT, 'whole'],
  ['last-without-blank-line', CHAT, 'whole'],
];

export function recordedStream(name: string): Buffer {
  return readFileSync(join(import.meta.dirname, `${name}.sse`));
}
