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
  /** Of its job, which is what `X-Job-Id` said. */
  id: text,
  /** What its caller calls it (`X-Request-Id`); null: as the job. */
  request_id: text.nullable(),
  kind: z.enum(REQUEST_KINDS),
  /** Epoch ms of the queue's clock: when it came, and when it ended. */
  submitted_at: z.number(),
  ended_at: z.number(),
  /** Empty: no pool serves its model. */
  config_id: text,
  /** As the engine calls it, or as was asked for. Empty: neither is known. */
  model: text,
  /** The route of a live request, the type of a stored job. */
  route: text,
  tenant: text.nullable(),
  token_name: text.nullable(),
  /** The worker that had it last; null: none had it. */
  worker_id: text.nullable(),
  /** Made in all. */
  attempts: count,
  outcome: z.enum(REQUEST_OUTCOMES),
  error_code: text.nullable(),
  /** The beginning of its message. */
  error: text.nullable(),
  /** Null: not told. */
  tokens_in: count.nullable(),
  tokens_out: count.nullable(),
  cached_tokens: count.nullable(),
  /** From submission to its last slot; of one that got none, to its end. */
  wait_ms: ms,
  /** From submission to the first token; null: its answer was not streamed, or there was none. */
  first_token_ms: ms.nullable(),
  total_ms: ms,
  is_slow: z.boolean(),
  /** How many requests it stands for: 1, or more where a busy queue kept only some of those that went well. */
  stands_for: count,
});
