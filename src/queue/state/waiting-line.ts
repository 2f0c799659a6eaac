import type { Backlog } from '../../admission/backlog.ts';
import type { WaitingJob } from './job.ts';
import { add } from './pending.ts';
import { Soonest } from './soonest.ts';

/**
 * Waiting jobs without a slot, by the model that they wait for. The backlog decides in which order they get one; it
 * leaves out those that admission holds back.
 */
export class WaitingLine {
  /** Epoch ms at which the next job is to be rejected. */
  readonly nextRejection = new Soonest();
  readonly #backlog: Backlog<WaitingJob>;
  readonly #byModel = new Map<string | null, Set<WaitingJob>>();
  readonly #ofPool = new Map<string, number>();
  readonly #ofTenant = new Map<string, { jobs: number; bytes: number }>();
  #bytes = 0;
  #size = 0;

  constructor(backlog: Backlog<WaitingJob>) {
    this.#backlog = backlog;
  }

  get size(): number {
    return this.#size;
  }

  /** Yields the waiting jobs by the model that they wait for, each model's oldest first; null stands for any model. */
  *byModel(): Generator<[model: string | null, jobs: WaitingJob[]]> {
    for (const [model, jobs] of this.#byModel) yield [model, [...jobs]];
  }

  /** Returns how many jobs wait for a slot of this pool. */
  ofPool(configId: string): number {
    return this.#ofPool.get(configId) ?? 0;
  }

  /** Returns how many jobs of this tenant wait, in all pools. */
  ofTenant(tenant: string): number {
    return this.#ofTenant.get(tenant)?.jobs ?? 0;
  }

  /** Bytes of all waiting payloads. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the bytes of this tenant's waiting payloads. */
  bytesOfTenant(tenant: string): number {
    return this.#ofTenant.get(tenant)?.bytes ?? 0;
  }

  enter(job: WaitingJob): void {
    const jobs = this.#byModel.get(job.model) ?? new Set();
    if (jobs.size === 0) this.#byModel.set(job.model, jobs);
    jobs.add(job);
    if (job.held === null) this.#backlog.enter(job);
    this.#count(job, 1);
  }

  /** Removes a job; does nothing if it does not wait. */
  leave(job: WaitingJob): void {
    const jobs = this.#byModel.get(job.model);
    if (!jobs?.delete(job)) return;
    if (jobs.size === 0) this.#byModel.delete(job.model);
    if (job.held === null) this.#backlog.leave(job);
    this.#count(job, -1);
  }

  /** Enters a job into the backlog that is held back no more. */
  admitted(job: WaitingJob): void {
    job.held = null;
    this.#backlog.enter(job);
  }

  #count({ config_id, tenant, payload }: WaitingJob, change: number): void {
    this.#size += change;
    add(this.#ofPool, config_id, change);
    const bytes = change * payload.byteLength;
    this.#bytes += bytes;
    if (tenant !== null) this.#countTenant(tenant, change, bytes);
  }

  #countTenant(tenant: string, change: number, bytes: number): void {
    const known = this.#ofTenant.get(tenant);
    if (known === undefined) this.#ofTenant.set(tenant, { jobs: change, bytes });
    else if (known.jobs + change === 0) this.#ofTenant.delete(tenant);
    else {
      known.jobs += change;
      known.bytes += bytes;
    }
  }
}
