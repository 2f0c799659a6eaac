import * as z from 'zod';
import { CAUSES } from '../aliases/alias.ts';
import { Duration } from '../protocol/duration.ts';

/** The name of a model, or of an alias. */
const ModelName = z
  .string()
  .min(1)
  .max(256)
  .regex(/^\P{Cc}*$/u, 'expected no control characters');

const TargetSpec = z.strictObject({
  model: ModelName.describe('A model, or another alias.'),
  weight: z
    .number()
    .min(0)
    .max(1_000_000)
    .default(1)
    .describe('Its share of the requests, compared with the weights of the others.'),
});

const ThenSpec = z.union([
  ModelName,
  z.strictObject({
    external: ModelName.describe('A model that a worker with ENGINE=external serves from elsewhere.'),
  }),
]);

const OnSpec = z.union([
  z.enum(CAUSES).exclude(['starting_over']),
  z.strictObject({ starting_over: Duration.describe('How long a start may take.') }),
]);

/** One of `aliases` in fleet.yaml: a name for callers, with the models that it stands for. */
export const AliasSpec = z.strictObject({
  split: z
    .strictObject({ by: z.enum(['session', 'tenant', 'request']).default('session') })
    .default({ by: 'session' })
    .describe(
      'What stays with one model: a conversation (X-Session-Id, else prompt_cache_key, user, the tenant), a tenant, or each request by itself.',
    ),
  to: z
    .array(TargetSpec)
    .min(1)
    .max(16)
    .describe('The models among which requests are divided by their weights.'),
  then: z.array(ThenSpec).max(16).default([]).describe('Where a request goes next, in this order.'),
  on: z
    .array(OnSpec)
    .default([])
    .describe('What lets a request go on to the next step, before the first byte of an answer.'),
  mirror: z
    .strictObject({
      model: ModelName.describe('The model that gets the copies.'),
      share: z.number().min(0).max(1).describe('The share of the requests that are copied, from 0 to 1.'),
    })
    .optional()
    .describe('Sends copies of requests to a model, measures their answers and throws them away.'),
});
