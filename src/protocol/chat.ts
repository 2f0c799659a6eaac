import * as z from 'zod';
import { maybe, otherwise } from './nulls.ts';

/** The most tokens that a chat job generates if it names no limit. */
export const CHAT_MAX_TOKENS = 512;

/**
 * The payload of `chat_completion` and `llm_inference` jobs, with the base README's defaults. The defaults apply to
 * queue jobs only, never to gateway requests. Unknown fields reach the engine.
 */
const WithDefaults = z.looseObject({
  messages: z
    .array(z.looseObject({ role: z.string() }), 'expected an array of {role, content}')
    .min(1, 'at least one message is needed'),
  model: otherwise(z.string(), 'default'),
  temperature: otherwise(z.number().min(0).max(2), 0.7),
  max_tokens: maybe(z.number().int().min(1)),
  top_p: otherwise(z.number().gt(0).max(1), 1),
  frequency_penalty: otherwise(z.number().min(-2).max(2), 0),
  presence_penalty: otherwise(z.number().min(-2).max(2), 0),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
});
/**
 * Adds the default limit only where the caller gave none under either name: some engines would prefer it to the newer
 * name.
 */
export const ChatPayload = WithDefaults.transform((given): z.infer<typeof WithDefaults> => {
  if (given.max_tokens !== undefined || given.max_completion_tokens != null) return given;
  return { ...given, max_tokens: CHAT_MAX_TOKENS };
});
export type ChatPayload = z.infer<typeof ChatPayload>;

/** The engine's answer as the base protocol reports it; other fields of the choices are kept. */
export interface ChatCompletionSummary {
  id: string;
  model: string;
  choices: { index: number; message: Record<string, unknown>; finish_reason: string | null }[];
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
}

/** The result of a stored `engine_request`: the engine's own answer. */
export interface EngineRequestResult {
  [field: string]: unknown;
  status: 'success';
  job_type: 'engine_request';
  processed_at: string;
  /** The engine's response; a body that is no text is in `body_base64`, and `body` is null. */
  response: { status: number; content_type: string | null; body: unknown; body_base64?: string };
}

/** The result of an `engine_request` whose answer went to the relay: only what the queue stores. */
export interface RelayedResult {
  [field: string]: unknown;
  status: 'success';
  job_type: string;
  processed_at: string;
  /** The number of bytes given to the relay. */
  answer_bytes: number;
  http_status: number;
}
