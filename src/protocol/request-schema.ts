import * as z from 'zod';
import { REQUEST_KINDS, REQUEST_OUTCOMES } from './request-outcomes.ts';

const count = z.number().int().min(0);
const ms = z.number().min(0);
const text = z.string();

/**
 * A request of any kind that has ended, as `GET /api/requests` lists it: who, where, how long, how many tokens; never
 * what was said.
 */
export const RequestRecord = z.object({
  /** The id of the request's job, as in `X-Job-Id`. */
  id: text,
  /** The caller's name for the request (`X-Request-Id`); null: the job's id. */
  request_id: text.nullable(),
  kind: z.enum(REQUEST_KINDS),
  /** The times when the request came and when it ended, epoch ms of the queue's clock. */
  submitted_at: z.number(),
  ended_at: z.number(),
  /** The request's pool; empty: no pool serves its model. */
  config_id: text,
  /** The engine's name for the model, or the requested one; empty: neither is known. */
  model: text,
  /** The alias that the request asked for; null or left out: it named the model itself. */
  alias: text.nullish(),
  /**
   * Why the request went to another model than the alias's first choice, or `mirror` for a copy of a request; null or
   * left out: it did not.
   */
  fallback: text.nullish(),
  /** The route of a live request, the type of a stored job. */
  route: text,
  tenant: text.nullable(),
  token_name: text.nullable(),
  /** The worker that had the request last; null: none had it. */
  worker_id: text.nullable(),
  /** The number of attempts made. */
  attempts: count,
  outcome: z.enum(REQUEST_OUTCOMES),
  error_code: text.nullable(),
  /** The beginning of the error's message. */
  error: text.nullable(),
  /** Tokens of the prompt; null, as in the next two fields: not reported. */
  tokens_in: count.nullable(),
  tokens_out: count.nullable(),
  cached_tokens: count.nullable(),
  /** The time from submission to the last slot; for a request that got none, to its end. */
  wait_ms: ms,
  /** The time from submission to the first token; null: the answer was not streamed, or there was none. */
  first_token_ms: ms.nullable(),
  total_ms: ms,
  is_slow: z.boolean(),
  /**
   * The number of requests that the record stands for: 1, or more where a busy queue kept only some of those that went
   * well.
   */
  stands_for: count,
});
