import * as z from 'zod';

/** Tenants of a pool that are told of at most: those that wait first, then those that had most. */
export const SHARES_TOLD = 100;

/** Who has what of one pool. */
export const PoolSharing = z.object({
  config_id: z.string(),
  /** Whose job goes to the next slot that becomes free; null: nobody waits, or who waits has no tenant. */
  next: z.string().nullable(),
  /** Of all tenants in the last hour: tokens as they came, of prompts and answers alike. */
  tokens: z.number(),
  tenants: z.array(
    z.object({
      /** Null: no tokens were configured. */
      tenant: z.string().nullable(),
      /** Its jobs that wait for a slot, but for those that limits hold back. */
      waiting: z.number(),
      /** It had, in the last hour; since the queue was started. */
      tokens: z.number(),
    }),
  ),
});
export type PoolSharing = z.infer<typeof PoolSharing>;

/** Answer of `GET /api/sharing`: pools of which somebody waits for or had something. */
export const Sharing = z.object({ pools: z.array(PoolSharing) });
