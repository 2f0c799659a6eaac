import * as z from 'zod';

/** The largest limit; a larger number would be no limit. */
const MOST = 1_000_000_000_000;

const amount = z.number().int().min(1).max(MOST).optional();

/** US dollars. */
const money = z.number().min(0.01).max(1_000_000_000).optional();

export const Budgets = z.strictObject({
  /** Tokens of prompts and answers since midnight, and since the first of the month, in UTC. */
  tokens_per_day: amount,
  tokens_per_month: amount,
  /** US dollars for the slots that requests held at workers whose price is known, in the same times. */
  dollars_per_day: money,
  dollars_per_month: money,
});
export type Budgets = z.infer<typeof Budgets>;

export const RateLimits = z.strictObject({
  /** Requests that are admitted within any minute. */
  requests_per_minute: amount,
  /** Tokens of prompts and answers within any minute. */
  tokens_per_minute: amount,
  ...Budgets.shape,
  /** Requests and stored jobs at a time, from when they are admitted until they end. */
  running: amount,
});
export type RateLimits = z.infer<typeof RateLimits>;

/** The limits of one token. Each queue counts by itself. */
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
const LimitsTold = z.object({
  ...RateLimits.shape,
  tenant: z.object(Budgets.shape).optional(),
  models: z.record(z.string(), z.object(RateLimits.shape)).optional(),
});

/** The most that a request may cost, as far as can be told before it runs: what limits count of it beside itself. */
export interface RequestCost {
  /** The tokens of prompt and answer. */
  tokens: number;
}

const Used = z.object({ used: z.number(), limit: z.number().nullable() });

/**
 * The usage of a token's limits, as `GET /api/limits` lists it: for all its requests, for requests for a pattern of
 * models, or for all tokens of its tenant.
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

/** The choices of a token's `store`, which bound what is stored of its responses. */
export const STORE_POLICIES = ['allow', 'deny', 'off'] as const;

/** A token as `GET /api/tokens` lists it. Times are ISO. */
export const TokenView = z.object({
  name: z.string(),
  scopes: z.array(z.enum(['submit', 'worker', 'launcher', 'gateway', 'read', 'admin'])),
  /** The tenant whose jobs the token submits and sees. */
  tenant: z.string(),
  /** A pattern of the ids of the only workers that may use the token; null: any. */
  worker_id: z.string().nullable(),
  /** The highest priority that the token may give; null: 0, with the scope `admin` any. */
  highest_priority: z.number().nullable(),
  /** The priority of jobs that name none; null: 0. */
  default_priority: z.number().nullable(),
  /** The token's weight in the fair share; null: 1. */
  weight: z.number().nullable(),
  /** Patterns of the models that the token may request; null: all. */
  models: z.array(z.string()).nullable(),
  /** Patterns of the paths that the token may request; null: all of its scopes. */
  routes: z.array(z.string()).nullable(),
  /** The token's limits; null: none. */
  limits: LimitsTold.nullable(),
  /** Whether its responses are stored; null: `allow`. */
  store: z.enum(STORE_POLICIES).nullable(),
  /** Whether its requests are kept with their answers; null: as QUEUE_KEEP_REQUESTS says. */
  keep: z.boolean().nullable(),
  /** The most bytes that its tenant may have stored for the token to store more; null: there is no limit. */
  stored_bytes: z.number().nullable(),
  /** The time when the token was made; null: unknown. */
  created_at: z.string().nullable(),
  /** The time when the token expires; null: it does not. */
  expires_at: z.string().nullable(),
  /** The time when the token was last used, to a minute; null: never, as far as is known. */
  last_used_at: z.string().nullable(),
  /**
   * `file`: the token stands in the token file or in QUEUE_TOKENS; `api`: it was made with `POST /api/tokens`; `oidc`: it
   * is no token but a person, who signs in at the issuer.
   */
  source: z.enum(['file', 'api', 'oidc']),
  /** The person, as the issuer names them, and the group whose rule holds for them; null: it is a token. */
  oidc: z.object({ issuer: z.string(), subject: z.string(), group: z.string() }).nullable(),
});
export type TokenView = z.infer<typeof TokenView>;

/** The answer of `GET /api/tokens`. */
export const TokenList = z.object({ tokens: z.array(TokenView) });

/** The answer where a token was made: the one time that its value is shown. */
export const NewToken = TokenView.extend({ token: z.string() });
export type NewToken = z.infer<typeof NewToken>;

/** The answer of `GET /api/limits`. */
export const LimitList = z.object({ limits: z.array(LimitView) });

/** The body of `POST /api/session`: a token, sent once, for a cookie that stands for it. */
export const SignIn = z.object({ token: z.string().min(1).max(4096) });

/** The answer of `GET` and `POST /api/session`: the token for which the page acts. */
export const SessionView = z.object({
  /** Whether a token is required; false: no tokens are configured, and this machine is served without one. */
  asks_for_token: z.boolean(),
  /** The name of the token; null: not signed in, or no token is required. */
  name: z.string().nullable(),
  scopes: z.array(z.enum(['submit', 'worker', 'launcher', 'gateway', 'read', 'admin'])),
  /** The time when the sign-in expires, ISO; null: not signed in. */
  expires_at: z.string().nullable(),
});
export type SessionView = z.infer<typeof SessionView>;

/** The answer of `GET /api/session/oidc`: how people sign in as themselves. */
export const OidcView = z.object({
  /** The host of the issuer; null: there is none, and people sign in with tokens. */
  issuer: z.string().nullable(),
  /** Why the last sign-in of this browser failed, one sentence, told once; null: it did not. */
  problem: z.string().nullable(),
});
export type OidcView = z.infer<typeof OidcView>;

/** The body of `POST /api/session/oidc`. */
export const OidcStart = z.object({
  /** The address of the root of the page, as the browser sees it, with a slash at its end. */
  page: z.string().max(4096),
  /** The address of the view to which the person comes back. */
  at: z.string().max(8192),
});
export type OidcStart = z.infer<typeof OidcStart>;

/** The answer of `POST /api/session/oidc`. */
export const OidcStarted = z.object({
  /** The address of the issuer, where the browser goes. */
  url: z.string(),
});
export type OidcStarted = z.infer<typeof OidcStarted>;

/** The most tenants of a pool that are listed: those that wait first, then those that were served most. */
export const SHARES_TOLD = 100;

/** The shares of one pool that its tenants have. */
export const PoolSharing = z.object({
  config_id: z.string(),
  /** The tenant whose job goes to the next free slot; null: no job waits, or the job has no tenant. */
  next: z.string().nullable(),
  /** The tokens of all tenants in the last hour, prompts and answers alike. */
  tokens: z.number(),
  tenants: z.array(
    z.object({
      /** The tenant's name; null: no tokens were configured. */
      tenant: z.string().nullable(),
      /** The tenant's jobs that wait for a slot, without those that limits hold back. */
      waiting: z.number(),
      /** The tokens that the tenant used in the last hour, or since the queue was started if that is less. */
      tokens: z.number(),
    }),
  ),
});
export type PoolSharing = z.infer<typeof PoolSharing>;

/** The answer of `GET /api/sharing`: the pools of which a tenant waits for or was served something. */
export const Sharing = z.object({ pools: z.array(PoolSharing) });
