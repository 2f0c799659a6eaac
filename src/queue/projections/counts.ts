import { SLOT_AMOUNTS, type UsageAmounts, type UsageKey } from '../rpc.ts';
import type { Ports } from '../store/ports.ts';
import { deleteCounts, readCounts, writeCounts } from './counts-table.ts';
import { newCounts, type PoolCounts, type TenantCost } from './pool-counts.ts';
import { WriteBehind } from './write-behind.ts';

/** The most pools counted by name, since a submission may name any pool; the others are counted together as `other`. */
const MOST_POOLS = 200;
const OTHER_POOLS = 'other';
/** The most tenants of one pool counted by name; the others are counted together as `other`. */
const MOST_TENANTS = 50;
const OTHER_TENANTS = 'other';

/** A pool that had no job for this many ms gives its place to a new one. */
const IDLE_MS = 24 * 3600 * 1000;

interface Place {
  counts: PoolCounts;
  /** The last change, epoch ms. */
  changedAt: number;
}

/** Counts what happened to the jobs of each pool since the queue was made; one row per pool. */
export class Counts extends WriteBehind {
  readonly #places = new Map<string, Place>();
  /** Pools whose row is older than their counts in memory. */
  readonly #changed = new Set<string>();
  readonly #dropped = new Set<string>();
  /** The costs in each pool's counts, by tenant. */
  readonly #costs = new WeakMap<PoolCounts, Map<string, TenantCost>>();

  constructor(ports: Ports) {
    super(ports, 'counts');
    for (const { config_id, counts, changed_at } of readCounts(ports.sql)) {
      this.#places.set(config_id, { counts: JSON.parse(counts) as PoolCounts, changedAt: changed_at });
    }
  }

  /** Returns the counts of a pool for the caller to change. @param isStored whether a stored job changes them */
  change(configId: string, isStored: boolean): PoolCounts {
    const name = this.nameOf(configId);
    const now = this.ports.now();
    let place = this.#places.get(name);
    if (!place) {
      this.#dropIdle(name);
      place = { counts: newCounts(), changedAt: now };
      this.#places.set(name, place);
      this.#dropped.delete(name);
    }
    place.changedAt = now;
    this.#changed.add(name);
    this.changed(isStored);
    return place.counts;
  }

  /**
   * Counts tokens and slot time, as the usage of a token counts them.
   * @param isStored whether a stored job used them
   */
  used({ config_id, tenant }: UsageKey, amounts: Partial<UsageAmounts>, isStored: boolean): void {
    if (config_id === '') return;
    const counts = this.change(config_id, isStored);
    counts.tokens.input += amounts.input ?? 0;
    counts.tokens.output += amounts.output ?? 0;
    counts.tokens.cached_input += amounts.cached ?? 0;
    counts.tokens.reasoning += amounts.reasoning ?? 0;
    counts.tokens.wasted += amounts.wasted ?? 0;
    counts.estimated += amounts.estimated_requests ?? 0;
    if (amounts.slot_ms === undefined) return;
    const cost = this.#costOf(counts, tenant);
    for (const name of SLOT_AMOUNTS) cost[name] += amounts[name] ?? 0;
  }

  /** Returns the cost of this tenant, or the common one of all tenants beyond MOST_TENANTS. */
  #costOf(counts: PoolCounts, tenant: string): TenantCost {
    const costs = this.#costs.get(counts) ?? new Map(counts.cost.map((cost) => [cost.tenant, cost]));
    this.#costs.set(counts, costs);
    const name = costs.has(tenant) || costs.size < MOST_TENANTS ? tenant : OTHER_TENANTS;
    const known = costs.get(name);
    if (known) return known;
    const fresh = { tenant: name, slot_ms: 0, unpriced_slot_ms: 0, nanodollars: 0 };
    counts.cost.push(fresh);
    costs.set(name, fresh);
    return fresh;
  }

  /** Returns the name that a pool is counted under: its own, or `other`. */
  nameOf(configId: string): string {
    if (this.#places.has(configId) || this.#places.size < MOST_POOLS) return configId;
    return this.#idlest() === null ? OTHER_POOLS : configId;
  }

  /** Returns the counts under this name, or null if there are none. */
  of(name: string): PoolCounts | null {
    return this.#places.get(name)?.counts ?? null;
  }

  /** Returns the names under which jobs were counted within a day. */
  recent(): string[] {
    const since = this.ports.now() - IDLE_MS;
    return [...this.#places].filter(([, { changedAt }]) => changedAt > since).map(([name]) => name);
  }

  protected override save(): void {
    const { sql } = this.ports;
    for (const config_id of this.#changed) {
      const { counts, changedAt } = this.#places.get(config_id)!;
      writeCounts(sql, { config_id, counts: JSON.stringify(counts), changed_at: changedAt });
    }
    for (const name of this.#dropped) deleteCounts(sql, name);
  }

  protected override afterSave(isSaved: boolean): void {
    if (!isSaved) return;
    this.#changed.clear();
    this.#dropped.clear();
  }

  /** Forgets the longest idle pool if a new one would find no place. */
  #dropIdle(name: string): void {
    if (this.#places.size < MOST_POOLS || name === OTHER_POOLS) return;
    const idlest = this.#idlest();
    if (idlest === null) return;
    this.#places.delete(idlest);
    this.#changed.delete(idlest);
    this.#dropped.add(idlest);
  }

  /** Returns the pool that has been idle longest, or null if none has been idle for IDLE_MS. */
  #idlest(): string | null {
    let [idlest, since]: [string | null, number] = [null, this.ports.now() - IDLE_MS];
    for (const [name, { changedAt }] of this.#places) {
      if (changedAt > since || name === OTHER_POOLS) continue;
      [idlest, since] = [name, changedAt];
    }
    return idlest;
  }
}
