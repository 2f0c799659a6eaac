import { type PoolSharing, SHARES_TOLD } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';

/**
 * Shows fair share at work: for each pool, the tenant that goes next, each tenant's waiting jobs and the tokens that it
 * was served in the last hour.
 */
export function sharing(core: Core): PoolSharing[] {
  core.stored.pending.load();
  const now = core.now();
  const pools = new Set([...core.backlog.lines().keys(), ...core.served.pools(now)]);
  return [...pools]
    .sort()
    .map((configId) => sharingOf(core, configId, now))
    .filter(({ config_id, tenants }) => config_id !== '' && tenants.length > 0);
}

function sharingOf({ backlog, served }: Core, config_id: string, now: number): PoolSharing {
  const had = new Map(served.of(config_id, now).map(({ tenant, tokens }) => [tenant, tokens]));
  const waiting = new Map<string | null, number>();
  let next: { tenant: string | null; priority: number } | null = null;
  for (const [priority, line] of backlog.lines().get(config_id) ?? []) {
    for (const { tenant, jobs } of line.inOrder()) {
      if (next === null || priority > next.priority) next = { tenant, priority };
      waiting.set(tenant, (waiting.get(tenant) ?? 0) + jobs);
    }
  }
  const all = [...new Set([...waiting.keys(), ...had.keys()])].map((tenant) => ({
    tenant,
    waiting: waiting.get(tenant) ?? 0,
    tokens: had.get(tenant) ?? 0,
  }));
  all.sort((one, other) => Number(other.waiting > 0) - Number(one.waiting > 0) || other.tokens - one.tokens);
  return {
    config_id,
    next: next?.tenant ?? null,
    tokens: all.reduce((sum, { tokens }) => sum + tokens, 0),
    tenants: all.slice(0, SHARES_TOLD),
  };
}
