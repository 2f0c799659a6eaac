import * as z from 'zod';
import { LimitsTold } from './token-limits.ts';

/** One token as `GET /api/tokens` lists it. Times are ISO. */
export const TokenView = z.object({
  name: z.string(),
  scopes: z.array(z.enum(['submit', 'worker', 'launcher', 'read', 'admin'])),
  /** Whose jobs it submits and sees. */
  tenant: z.string(),
  /** The only workers that may use it, a pattern; null: any. */
  worker_id: z.string().nullable(),
  /** Null: 0, of `admin` any. */
  highest_priority: z.number().nullable(),
  /** Of what names none; null: 0. */
  default_priority: z.number().nullable(),
  /** Its part among the others; null: 1. */
  weight: z.number().nullable(),
  /** Patterns of models that it may ask for; null: all. */
  models: z.array(z.string()).nullable(),
  /** Patterns of paths; null: all of its scopes. */
  routes: z.array(z.string()).nullable(),
  /** What it may use; null: whatever there is. */
  limits: LimitsTold.nullable(),
  /** Null: unknown. */
  created_at: z.string().nullable(),
  /** Null: it does not expire. */
  expires_at: z.string().nullable(),
  /** To a minute; null: never, as far as is known. */
  last_used_at: z.string().nullable(),
  /** `file`: it stands in the token file or in QUEUE_TOKENS; `api`: it was made with `POST /api/tokens`. */
  source: z.enum(['file', 'api']),
});
export type TokenView = z.infer<typeof TokenView>;

/** Answer of `GET /api/tokens`. */
export const TokenList = z.object({ tokens: z.array(TokenView) });

/** Answer where a token was made: the one time that it is shown. */
export const NewToken = TokenView.extend({ token: z.string() });
export type NewToken = z.infer<typeof NewToken>;
