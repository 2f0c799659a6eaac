import * as z from 'zod';

/** Body of `POST /api/session`: a token, once, for a cookie that stands for it. */
export const SignIn = z.object({ token: z.string().min(1).max(4096) });

/** Answer of `GET` and `POST /api/session`: whom the page acts for. */
export const SessionView = z.object({
  /** False: no tokens are configured, and this machine is served without one. */
  asks_for_token: z.boolean(),
  /** Name of the token; null: not signed in, or none is asked for. */
  name: z.string().nullable(),
  scopes: z.array(z.enum(['submit', 'worker', 'launcher', 'read', 'admin'])),
  /** ISO; null: not signed in. */
  expires_at: z.string().nullable(),
});
export type SessionView = z.infer<typeof SessionView>;
