import { z } from 'zod';

/**
 * Payload of `chat_completion` and `llm_inference` jobs, with the base README's defaults.
 * They apply to queue jobs only, never to gateway requests. Unknown fields reach the engine.
 */
export const ChatPayload = z.looseObject({
  messages: z
    .array(z.looseObject({ role: z.string() }), 'messages: expected an array of {role, content}')
    .min(1, 'messages: at least one message is needed'),
  model: z.string().default('default'),
  temperature: z.number().min(0).max(2).default(0.7),
  max_tokens: z.number().int().min(1).default(512),
  top_p: z.number().gt(0).max(1).default(1),
  frequency_penalty: z.number().min(-2).max(2).default(0),
  presence_penalty: z.number().min(-2).max(2).default(0),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
});
export type ChatPayload = z.infer<typeof ChatPayload>;

/** The engine's answer as the base protocol reports it; other fields of the choices are kept. */
export interface ChatCompletionSummary {
  id: string;
  model: string;
  choices: { index: number; message: Record<string, unknown>; finish_reason: string | null }[];
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
}

/** Result of a chat job (the base README's form). */
export interface ChatResult {
  [field: string]: unknown;
  status: 'success';
  job_type: string;
  /** ISO, UTC, milliseconds and `Z`. */
  processed_at: string;
  completion: ChatCompletionSummary;
}

/** Result of an `engine_request` that nobody waits for: the engine's own answer. */
export interface EngineRequestResult {
  [field: string]: unknown;
  status: 'success';
  job_type: 'engine_request';
  processed_at: string;
  response: { status: number; content_type: string | null; body: unknown };
}

/** Result of an `engine_request` whose answer went to the relay: only what the queue keeps. */
export interface RelayedResult {
  [field: string]: unknown;
  status: 'success';
  job_type: string;
  processed_at: string;
  /** Bytes given to the relay. */
  answer_bytes: number;
  http_status: number;
}
