import * as z from 'zod';
import { LimitsTold } from './token-limits.ts';

/** One token as `GET /api/tokens` lists it. Times are ISO. */
export const TokenView = z.object({
  name: z.string(),
  scopes: z.array(z.enum(['submit', 'worker', 'launcher', 'read', 'admin'])),
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
  /** When the token was made; null: unknown. */
  created_at: z.string().nullable(),
  /** When the token expires; null: it does not. */
  expires_at: z.string().nullable(),
  /** When the token was last used, to a minute; null: never, as far as is known. */
  last_used_at: z.string().nullable(),
  /** `file`: the token stands in the token file or in QUEUE_TOKENS; `api`: it was made with `POST /api/tokens`. */
  source: z.enum(['file', 'api']),
});
export type TokenView = z.infer<typeof TokenView>;

/** The answer of `GET /api/tokens`. */
export const TokenList = z.object({ tokens: z.array(TokenView) });

/** The answer where a token was made: the one time that its value is shown. */
export const NewToken = TokenView.extend({ token: z.string() });
export type NewToken = z.infer<typeof NewToken>;
