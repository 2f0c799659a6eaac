import * as z from 'zod';
import { MOVING_IDS } from './bounds.ts';

/**
 * The stages of an answer, by what its caller was given.
 *
 * - `running`  the event with the finish reason is still to come
 * - `finished` the event with the finish reason has been passed on
 * - `counted`  the event with the usage has been passed on too
 * - `closed`   the end mark has been passed on too
 */
export const STAGES = ['running', 'finished', 'counted', 'closed'] as const;
export type Stage = (typeof STAGES)[number];

/** The members that all events of one answer have in common: in a chat its id, time and model. */
export const AnswerIdentity = z.record(z.string(), z.union([z.string(), z.number()]));
export type AnswerIdentity = z.infer<typeof AnswerIdentity>;

/**
 * The name of a model with its revision and its tokenizer: token ids mean the same to engines of equal names only.
 */
export const ModelIdentity = z.string().min(1).max(1024);

/** Everything that the continuation of an answer is made of, beside token ids. */
export const MovePlan = z.object({
  /** The identity of the model whose worker makes the answer; older workers leave it out. */
  model_identity: ModelIdentity.optional(),
  path: z.string(),
  /** The request without its prompt, and without what a continuation says anew. */
  rest: z.record(z.string(), z.unknown()),
  /** The most tokens of the whole answer; null: as many as fit. */
  max_tokens: z.number().nullable(),
  /** The caller's name for the limit of tokens. */
  max_tokens_field: z.enum(['max_tokens', 'max_completion_tokens']),
  min_tokens: z.number(),
  /** Whether the caller asked for the usage. */
  includes_usage: z.boolean(),
  /** The number of tokens in the prompt that the caller wrote, if the request is itself a continuation. */
  first_prompt: z.number().optional(),
});
export type MovePlan = z.infer<typeof MovePlan>;

/** The data by which a relay can have an answer moved to another worker. */
export const Moves = z.object({ plan: MovePlan, identity: AnswerIdentity, prompt_tokens: z.number() });
export type Moves = z.infer<typeof Moves>;

/** The number of tokens in the prompt that its caller wrote, beside the request for the rest of an answer. */
export const Continues = z.object({ prompt_tokens: z.number().int().min(0) });
export type Continues = z.infer<typeof Continues>;

/** The part of a stored job's answer in one piece that an attempt has generated; the next attempt continues from it. */
export const PartialAnswer = z.object({
  /** The number of tokens in the prompt that the caller wrote. */
  prompt_tokens: z.number().int().min(0),
  /** The token ids of the prompt, then those of what has been generated. */
  ids: z.array(z.number().int().min(0)).max(MOVING_IDS),
  /** The identity of the model whose worker made the part; older workers leave it out. */
  model_identity: ModelIdentity.optional(),
  /** The role of the message, in a chat. */
  role: z.string().max(64),
  text: z.string(),
  /** The reasoning in the message, as the engine's parser reported it. */
  reasoning: z.string().default(''),
  /**
   * The log probabilities as the engine reports them, one for each token generated, if a chat asks for them; else null.
   */
  logprobs: z.array(z.unknown()).max(MOVING_IDS).nullable(),
});
export type PartialAnswer = z.infer<typeof PartialAnswer>;

/** The ids, text and log probabilities that were generated since the last part. */
export const AnswerPart = PartialAnswer.extend({
  /** The number of ids before this part; 0 in the first part. */
  after: z.number().int().min(0),
});
export type AnswerPart = z.infer<typeof AnswerPart>;
