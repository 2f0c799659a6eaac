import * as z from 'zod';
import { MOVING_IDS } from './limits.ts';

/**
 * How far an answer has come that its caller was given.
 *
 * - `running`
 * - `finished` the event with its finish has been passed on
 * - `counted`  and that with its usage
 * - `closed`   and the end mark
 */
export const STAGES = ['running', 'finished', 'counted', 'closed'] as const;
export type Stage = (typeof STAGES)[number];

/** The members that all events of one answer have in common: of a chat its id, time and model. */
export const AnswerIdentity = z.record(z.string(), z.union([z.string(), z.number()]));
export type AnswerIdentity = z.infer<typeof AnswerIdentity>;

/** Everything that the continuation of an answer is made of, beside token ids. */
export const MovePlan = z.object({
  path: z.string(),
  /** The request without its prompt, and without what a continuation says anew. */
  rest: z.record(z.string(), z.unknown()),
  /** Most tokens of the whole answer; null: as many as fit. */
  max_tokens: z.number().nullable(),
  /** The name that its caller gave that number. */
  max_tokens_field: z.enum(['max_tokens', 'max_completion_tokens']),
  min_tokens: z.number(),
  /** Its caller asked for the usage. */
  includes_usage: z.boolean(),
  /** Of a continuation: tokens of the prompt that its caller wrote. */
  first_prompt: z.number().optional(),
});
export type MovePlan = z.infer<typeof MovePlan>;

/** What a relay is told of an answer that may be moved. */
export const Moves = z.object({ plan: MovePlan, identity: AnswerIdentity, prompt_tokens: z.number() });
export type Moves = z.infer<typeof Moves>;

/** The number of tokens in the prompt that its caller wrote, beside the request for the rest of an answer. */
export const Continues = z.object({ prompt_tokens: z.number().int().min(0) });
export type Continues = z.infer<typeof Continues>;

/** What has been generated of an answer in one piece that a stored job asks for: another attempt goes on from it. */
export const PartialAnswer = z.object({
  /** Tokens of the prompt that its caller wrote. */
  prompt_tokens: z.number().int().min(0),
  /** Of the prompt, then of what has been generated. */
  ids: z.array(z.number().int().min(0)).max(MOVING_IDS),
  /** Of the message, in a chat. */
  role: z.string().max(64),
  text: z.string(),
  /** Of the same message: what its parser told of it as reasoning. */
  reasoning: z.string().default(''),
  /** Of a chat that asks for them, as its engine tells them, one for each token generated; null: of any other. */
  logprobs: z.array(z.unknown()).max(MOVING_IDS).nullable(),
});
export type PartialAnswer = z.infer<typeof PartialAnswer>;

/** What has come of it since the last part: ids, text and log probabilities are those that follow. */
export const AnswerPart = PartialAnswer.extend({
  /** How many ids there are before; 0: this is the first part. */
  after: z.number().int().min(0),
});
export type AnswerPart = z.infer<typeof AnswerPart>;
