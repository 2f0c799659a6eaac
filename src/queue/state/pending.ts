import type { Backlog, Placed } from '../../admission/backlog.ts';
import type { StoredJob, WaitingJob } from '../job.ts';
import { countPending } from '../store/pending-table.ts';
import type { Sql } from '../store/ports.ts';

type Place = Pick<StoredJob, 'config_id' | 'tenant' | 'priority' | 'run_after' | 'is_held'>;

/**
 * Counts pending stored jobs, in all, by pool and by tenant, and the ready ones in the backlog. It counts once from the
 * table, when first asked, and is then updated by every move of a job into or out of `pending`; a restart counts again.
 */
export class Pending {
  readonly #sql: Sql;
  readonly #backlog: Backlog<WaitingJob>;
  #counts: {
    all: number;
    pools: Map<string, number>;
    tenants: Map<string, number>;
    priorities: Map<string, Map<number, number>>;
  } | null = null;

  constructor(sql: Sql, backlog: Backlog<WaitingJob>) {
    this.#sql = sql;
    this.#backlog = backlog;
  }

  /** Counts the table, so that the backlog knows what is ready from now on. */
  load(): void {
    this.#counted();
  }

  get all(): number {
    return this.#counted().all;
  }

  ofPool(configId: string): number {
    return this.#counted().pools.get(configId) ?? 0;
  }

  /** Returns how many jobs of each priority are pending, by pool. */
  priorities(): ReadonlyMap<string, ReadonlyMap<number, number>> {
    return this.#counted().priorities;
  }

  ofTenant(tenant: string): number {
    return this.#counted().tenants.get(tenant) ?? 0;
  }

  entered(job: Place): void {
    this.#move(job, 1);
  }

  left(job: Place): void {
    this.#move(job, -1);
  }

  /** Notes that a job that is pending already became ready. */
  ready(place: Placed): void {
    if (this.#counts) this.#backlog.stored(place, 1);
  }

  #move(job: Place, change: number): void {
    const counts = this.#counts;
    if (!counts) return;
    counts.all += change;
    add(counts.pools, job.config_id, change);
    this.#moveOfPriority(counts.priorities, job, change);
    if (job.tenant !== null) add(counts.tenants, job.tenant, change);
    if (job.run_after === null && job.is_held === 0) this.#backlog.stored(job, change);
  }

  #moveOfPriority(
    priorities: Map<string, Map<number, number>>,
    { config_id, priority }: Place,
    change: number,
  ): void {
    const counts = priorities.get(config_id) ?? new Map<number, number>();
    add(counts, priority, change);
    if (counts.size === 0) priorities.delete(config_id);
    else priorities.set(config_id, counts);
  }

  #counted() {
    if (this.#counts) return this.#counts;
    this.#counts = { all: 0, pools: new Map(), tenants: new Map(), priorities: new Map() };
    for (const { n, ...place } of countPending(this.#sql)) this.#move(place, n);
    return this.#counts;
  }
}

/** Changes one of several counts, and forgets a count of 0. */
export function add<K>(counts: Map<K, number>, key: K, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
