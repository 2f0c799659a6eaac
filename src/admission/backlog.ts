import { FairLine, type Share } from './fair-line.ts';

/** A job's place among others: its pool, priority and tenant. */
export interface Placed {
  config_id: string;
  priority: number;
  tenant: string | null;
}

/** A job that is charged less to its tenant, the larger its token's weight is. */
export interface Weighted {
  extras: { weight?: number };
}

/** Returns the weight of a job's token, 1 for most. */
export function weightOf({ extras }: Weighted): number {
  return extras.weight ?? 1;
}

/** A job whose caller waits. */
export interface PlacedRequest extends Placed, Weighted {
  /** The model that the caller requested; null: any. */
  model: string | null;
}

/**
 * Holds all that waits for a slot: by pool, priority and tenant, in the order of fair share. It counts the stored jobs,
 * and lists those whose callers wait.
 */
export class Backlog<J extends PlacedRequest> {
  /** The lines by pool and priority; an empty line stays, since it knows what its tenants were served. */
  readonly #lines = new Map<string, Map<number, FairLine<J>>>();
  /** The number of waiting callers, by the model that they wait for and the pool that they are counted for. */
  readonly #models = new Map<string | null, Map<string, number>>();
  #order = 0;
  #size = 0;

  /** The number of jobs that wait, of both modes. */
  get size(): number {
    return this.#size;
  }

  line({ config_id, priority }: Pick<Placed, 'config_id' | 'priority'>): FairLine<J> {
    const lines = this.#lines.get(config_id) ?? new Map<number, FairLine<J>>();
    if (lines.size === 0) this.#lines.set(config_id, lines);
    const known = lines.get(priority);
    if (known) return known;
    const line = new FairLine<J>();
    lines.set(priority, line);
    return line;
  }

  /** Returns the lines by pool and priority. */
  lines(): ReadonlyMap<string, ReadonlyMap<number, FairLine<J>>> {
    return this.#lines;
  }

  /** Adds a job whose caller waits. */
  enter(job: J): void {
    this.#change(job, (share) => share.enter(job.model, job, ++this.#order));
    this.#count(job, 1);
  }

  leave(job: J): void {
    this.#change(job, (share) => share.leave(job.model, job));
    this.#count(job, -1);
  }

  /** Changes the number of ready stored jobs by this much. */
  stored(place: Placed, change: number): void {
    this.#change(place, (share) => {
      share.stored += change;
    });
  }

  /** Returns the pools that callers who wait for one of these models are counted for. */
  poolsOf(models: Iterable<string | null>): Set<string> {
    const pools = new Set<string>();
    for (const model of models) for (const pool of this.#models.get(model)?.keys() ?? []) pools.add(pool);
    return pools;
  }

  /**
   * Returns the jobs whose callers wait, in the order in which workers would get them if each cost as much as its
   * tenant's earlier jobs.
   */
  order(): J[] {
    const found: { job: J; at: number; order: number }[] = [];
    for (const lines of this.#lines.values()) {
      for (const line of lines.values()) {
        for (const share of line.inOrder()) {
          const jobs = share.firstFor(share.waiting.keys(), Number.POSITIVE_INFINITY, () => true);
          let at = share.counter;
          for (const job of jobs) {
            found.push({ job, at, order: share.since });
            at += share.expectedCost / weightOf(job);
          }
        }
      }
    }
    found.sort(
      (one, other) => other.job.priority - one.job.priority || one.at - other.at || one.order - other.order,
    );
    return found.map(({ job }) => job);
  }

  #change(place: Placed, change: (share: Share<J>) => void): void {
    const line = this.line(place);
    const share = line.share(place.tenant);
    const before = share.jobs;
    change(share);
    line.changed(share, before);
    this.#size += share.jobs - before;
  }

  #count({ model, config_id }: J, change: number): void {
    const pools = this.#models.get(model) ?? new Map<string, number>();
    if (pools.size === 0) this.#models.set(model, pools);
    const count = (pools.get(config_id) ?? 0) + change;
    if (count > 0) pools.set(config_id, count);
    else pools.delete(config_id);
    if (pools.size === 0) this.#models.delete(model);
  }
}
