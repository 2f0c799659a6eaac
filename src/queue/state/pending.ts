import type { StoredJob } from '../store/jobs-table.ts';
import { countPending } from '../store/jobs-table.ts';
import type { Sql } from '../store/ports.ts';

type Place = Pick<StoredJob, 'config_id' | 'tenant'>;

/**
 * How many persisted jobs are pending, in all, by config and by tenant. Counted once from the table, when
 * first asked for, then updated by every move of a job into or out of `pending`; a restart counts again.
 */
export class Pending {
  readonly #sql: Sql;
  #counts: { all: number; configs: Map<string, number>; tenants: Map<string, number> } | null = null;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get all(): number {
    return this.#counted().all;
  }

  ofConfig(configId: string): number {
    return this.#counted().configs.get(configId) ?? 0;
  }

  /** Those of which jobs wait. */
  configs(): Iterable<string> {
    return this.#counted().configs.keys();
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

  #move(job: Place, change: number): void {
    const counts = this.#counts;
    if (!counts) return;
    counts.all += change;
    add(counts.configs, job.config_id, change);
    if (job.tenant !== null) add(counts.tenants, job.tenant, change);
  }

  #counted() {
    if (this.#counts) return this.#counts;
    this.#counts = { all: 0, configs: new Map(), tenants: new Map() };
    for (const { n, ...place } of countPending(this.#sql)) this.#move(place, n);
    return this.#counts;
  }
}

/** Changes one of several counts; one at 0 is forgotten. */
export function add(counts: Map<string, number>, key: string, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
