import * as z from 'zod';

/** The body of `POST /api/session`: a token, sent once, for a cookie that stands for it. */
export const SignIn = z.object({ token: z.string().min(1).max(4096) });

/** The answer of `GET` and `POST /api/session`: whom the page acts for. */
export const SessionView = z.object({
  /** Whether a token is required; false: no tokens are configured, and this machine is served without one. */
  asks_for_token: z.boolean(),
  /** The name of the token; null: not signed in, or no token is required. */
  name: z.string().nullable(),
  scopes: z.array(z.enum(['submit', 'worker', 'launcher', 'read', 'admin'])),
  /** When the sign-in expires, ISO; null: not signed in. */
  expires_at: z.string().nullable(),
});
export type SessionView = z.infer<typeof SessionView>;
