import { SLOT_AMOUNTS, type UsageAmounts, type UsageKey } from '../rpc.ts';
import { deleteCounts, readCounts, writeCounts } from '../store/counts-table.ts';
import type { Ports } from '../store/ports.ts';
import { newCounts, type PoolCounts, type TenantCost } from './pool-counts.ts';
import { WriteBehind } from './write-behind.ts';

/** A submission may name any pool: pools beyond so many are counted together, as `other`. */
const MOST_POOLS = 200;
const OTHER_POOLS = 'other';
/** The same of the tenants of one pool. */
const MOST_TENANTS = 50;
const OTHER_TENANTS = 'other';

/** A pool without a job for so long gives its place to a new one, ms. */
const IDLE_MS = 24 * 3600 * 1000;

interface Place {
  counts: PoolCounts;
  /** Epoch ms */
  changedAt: number;
}

/** What happened to jobs, counted by pool since the queue was made; a row each. */
export class Counts extends WriteBehind {
  readonly #places = new Map<string, Place>();
  /** Not written as they are now. */
  readonly #changed = new Set<string>();
  readonly #dropped = new Set<string>();
  /** Of each pool's counts: its costs by tenant. */
  readonly #costs = new WeakMap<PoolCounts, Map<string, TenantCost>>();

  constructor(ports: Ports) {
    super(ports, 'counts');
    for (const { config_id, counts, changed_at } of readCounts(ports.sql)) {
      this.#places.set(config_id, { counts: JSON.parse(counts) as PoolCounts, changedAt: changed_at });
    }
  }

  /** The counts of a pool, which the caller is about to change. @param isStored by a job that is a row */
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

  /** Tokens and the time of slots, as they are counted for the usage of a token. @param isStored of a job that is a row */
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

  /** Of this tenant, or of all others. */
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

  /** Under which name a pool is counted: its own, or `other`. */
  nameOf(configId: string): string {
    if (this.#places.has(configId) || this.#places.size < MOST_POOLS) return configId;
    return this.#idlest() === null ? OTHER_POOLS : configId;
  }

  /** Null: nothing was counted of it. */
  of(name: string): PoolCounts | null {
    return this.#places.get(name)?.counts ?? null;
  }

  /** Names of what had a job within a day. */
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

  /** Makes room for one more. */
  #dropIdle(name: string): void {
    if (this.#places.size < MOST_POOLS || name === OTHER_POOLS) return;
    const idlest = this.#idlest();
    if (idlest === null) return;
    this.#places.delete(idlest);
    this.#changed.delete(idlest);
    this.#dropped.add(idlest);
  }

  /** The pool that has been idle longest, and for long enough to be forgotten. */
  #idlest(): string | null {
    let [idlest, since]: [string | null, number] = [null, this.ports.now() - IDLE_MS];
    for (const [name, { changedAt }] of this.#places) {
      if (changedAt > since || name === OTHER_POOLS) continue;
      [idlest, since] = [name, changedAt];
    }
    return idlest;
  }
}
