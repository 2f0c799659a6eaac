import * as z from 'zod';
import { SCOPES } from './scopes.ts';

/** One token as the token file, `TOKENS` and the gateway know it: never the token itself. */
export const TokenEntry = z.object({
  name: z.string(),
  /** Lower-case hex of the token's SHA-256. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  scopes: z.array(z.enum(SCOPES)).min(1),
  /** Whose jobs it submits and sees; left out: it is a tenant of its own, by its name. */
  tenant: z.string().min(1).max(256).optional(),
  /** Id of the only worker that may use it, or a pattern of ids: `runpod-*`. Left out: any worker. */
  worker_id: z.string().max(256).regex(/^\S+$/).optional(),
  /**
   * Highest priority of the jobs that it submits, and of its requests at an engine that schedules by priority (there the
   * lowest number goes first: -5 needs 5). Left out: 0, that of requests whose callers wait; of `admin` any.
   */
  highest_priority: z.number().int().min(0).max(1000).optional(),
});
export type TokenEntry = z.infer<typeof TokenEntry>;
