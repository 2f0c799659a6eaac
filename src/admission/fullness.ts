import { shortName } from '../protocol/index.ts';
import type { Refusal } from './refusal.ts';

/** Refuses jobs where as much waits already as a pool, a tenant or the memory of the queue may have. */

/** The `Retry-After` of answers that are worth retrying, s. */
export const RETRY_AFTER_SECONDS = 5;

/** The settings that bound what waits. */
interface Bounds {
  max_pending: number;
  max_waiting: number;
  max_waiting_bytes: number;
  /** The share of each bound that one tenant may take. */
  tenant_share: number;
}

/** The numbers of jobs that wait of a pool and of a tenant, including the job in question. */
interface Depth {
  ofPool(configId: string): number;
  ofTenant(tenant: string): number;
}

/** Refuses a stored job where its pool or its tenant has too many pending jobs; null if there is room. */
export function pendingFull(
  configId: string,
  tenant: string | null,
  pending: Depth,
  bounds: Bounds,
): Refusal | null {
  return tooMany(configId, tenant, pending, bounds.max_pending, bounds, {
    pool: `jobs of pool "${configId}" are pending`,
    tenant: 'jobs of it are pending',
  });
}

/** Refuses a request that found no slot where too many wait already, or too many bytes; null if there is room. */
export function waitingFull(
  { config_id, model, tenant }: { config_id: string; model: string | null; tenant: string | null },
  waiting: Depth & { bytes: number; bytesOfTenant(tenant: string): number },
  bounds: Bounds,
): Refusal | null {
  const full = tooMany(config_id, tenant, waiting, bounds.max_waiting, bounds, {
    pool: `requests for "${shortName(model ?? 'any model')}" wait for a free slot already`,
    tenant: 'requests of it wait for a free slot already',
  });
  if (full !== null) return full;
  const { max_waiting_bytes: most } = bounds;
  if (waiting.bytes > most)
    return refused(`the queue is full: the requests that wait for a free slot may have ${most} bytes in all`);
  const ofTenant = shareOf(most, bounds);
  if (tenant === null || waiting.bytesOfTenant(tenant) <= ofTenant) return null;
  return refused(
    `the queue is full for the token "${tenant}": its requests that wait for a free slot may have ${ofTenant} bytes in all`,
  );
}

/** @param what the words for the pool and for the tenant: `jobs of pool "a" are pending` */
function tooMany(
  configId: string,
  tenant: string | null,
  depth: Depth,
  most: number,
  bounds: Bounds,
  what: { pool: string; tenant: string },
): Refusal | null {
  if (depth.ofPool(configId) > most) return refused(`the queue is full: ${most} ${what.pool}`);
  const ofTenant = shareOf(most, bounds);
  if (tenant === null || depth.ofTenant(tenant) <= ofTenant) return null;
  return refused(`the queue is full for the token "${tenant}": ${ofTenant} ${what.tenant}`);
}

/** Returns how much of a bound one tenant may take: at least one, so that a small share shuts no tenant out. */
function shareOf(most: number, { tenant_share }: Bounds): number {
  return Math.max(1, Math.floor(most * tenant_share));
}

function refused(message: string): Refusal {
  return { kind: 'refused', reason: 'queue_full', message, retry_after_seconds: RETRY_AFTER_SECONDS };
}
