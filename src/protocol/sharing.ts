import * as z from 'zod';

/** The most tenants of a pool that are listed: those that wait first, then those that were served most. */
export const SHARES_TOLD = 100;

/** How much of one pool each tenant has. */
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

/** The answer of `GET /api/sharing`: the pools of which somebody waits for or was served something. */
export const Sharing = z.object({ pools: z.array(PoolSharing) });
