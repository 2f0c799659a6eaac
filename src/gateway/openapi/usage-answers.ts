import * as z from 'zod';
import { USAGE_AMOUNTS, USAGE_KEYS } from '../../queue/rpc.ts';

/** The schemas of the answers of routes about usage. */

const count = z.number().int();
const { nanodollars: _, ...amounts } = Object.fromEntries(
  USAGE_AMOUNTS.map((name) => [name, count]),
) as Record<(typeof USAGE_AMOUNTS)[number], typeof count>;
/** The cost of slots whose worker's price is known, US dollars; null where none is known. */
const cost = { dollars: z.number().nullable() };
const keys = Object.fromEntries(USAGE_KEYS.map((name) => [name, z.string().optional()]));

export const Usage = z.object({
  since: z.string(),
  until: z.string(),
  width: z.enum(['day', 'hour']),
  usage: z.array(z.object({ start: z.string(), ...keys, ...amounts, ...cost })),
  total: z.object({ ...amounts, ...cost }),
  /** The cost of pools' launched machines on each day beyond what jobs used of them. */
  idle: z.array(z.object({ start: z.string(), config_id: z.string(), dollars: z.number() })),
});

const seconds = z.number().int();
const name = z.string().nullable();

export const UsagePage = z.object({
  object: z.literal('page'),
  data: z.array(
    z.object({
      object: z.literal('bucket'),
      start_time: seconds,
      end_time: seconds,
      results: z.array(
        z.object({
          object: z.literal('organization.usage.completions.result'),
          input_tokens: count,
          input_cached_tokens: count,
          output_tokens: count,
          input_audio_tokens: count,
          output_audio_tokens: count,
          num_model_requests: count,
          project_id: name,
          user_id: name,
          api_key_id: name,
          model: name,
          batch: z.boolean().nullable(),
          service_tier: name,
        }),
      ),
    }),
  ),
  has_more: z.boolean(),
  next_page: z.string().nullable(),
});
