import * as z from 'zod';

/** The largest limit; a larger number would be no limit. */
const MOST = 1_000_000_000_000;

const amount = z.number().int().min(1).max(MOST).optional();

/** US dollars. */
const money = z.number().min(0.01).max(1_000_000_000).optional();

const Budgets = z.strictObject({
  /** Tokens of prompts and answers since midnight, and since the first of the month, in UTC. */
  tokens_per_day: amount,
  tokens_per_month: amount,
  /** US dollars for the slots that requests held at workers whose price is known, in the same times. */
  dollars_per_day: money,
  dollars_per_month: money,
});
export type Budgets = z.infer<typeof Budgets>;

const RateLimits = z.strictObject({
  /** Requests that are admitted within any minute. */
  requests_per_minute: amount,
  /** Tokens of prompts and answers within any minute. */
  tokens_per_minute: amount,
  ...Budgets.shape,
  /** Requests and stored jobs at a time, from when they are admitted until they end. */
  running: amount,
});
export type RateLimits = z.infer<typeof RateLimits>;

/** What one token may use. Each queue counts by itself. */
export const Limits = RateLimits.extend({
  /** The budgets of the tenant: this token is admitted while all tokens of the tenant together have used less. */
  tenant: Budgets.optional(),
  /**
   * The limits by model, by names or patterns (`qwen-*`); the limits of every pattern that fits hold beside those of
   * all models.
   */
  models: z
    .record(z.string().min(1).max(256), RateLimits)
    .refine((models) => Object.keys(models).length <= 20, 'at most 20 patterns')
    .optional(),
}).strict();
export type Limits = z.infer<typeof Limits>;

/** The limits in an answer, which a later version of the queue may extend. */
export const LimitsTold = z.object({
  ...RateLimits.shape,
  tenant: z.object(Budgets.shape).optional(),
  models: z.record(z.string(), z.object(RateLimits.shape)).optional(),
});

const Used = z.object({ used: z.number(), limit: z.number().nullable() });

/**
 * How far a token has used its limits, as `GET /api/limits` lists it: those of all its requests, of requests for a
 * pattern of models, or of all tokens of its tenant.
 */
export const LimitView = z.object({
  token_name: z.string(),
  /** The tenant whose tokens are counted together; null: the token alone is counted. */
  tenant: z.string().nullable(),
  /** The pattern of models; null: all models. */
  models: z.string().nullable(),
  requests_per_minute: Used,
  /** Tokens counted within the last minute, and those reserved by what runs. */
  tokens_per_minute: Used,
  /** Tokens since midnight and since the first of the month in UTC, and those reserved by what runs. */
  tokens_per_day: Used,
  tokens_per_month: Used,
  /** US dollars since midnight and since the first of the month in UTC; what runs is counted when its attempt ends. */
  dollars_per_day: Used,
  dollars_per_month: Used,
  running: Used,
  /** Requests and stored jobs that wait because of the limit. */
  held: z.number(),
});
export type LimitView = z.infer<typeof LimitView>;

/** The answer of `GET /api/limits`. */
export const LimitList = z.object({ limits: z.array(LimitView) });
