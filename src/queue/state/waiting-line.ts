import { workerAlone } from '../rpc.ts';
import type { WaitingJob } from './job.ts';
import { add } from './pending.ts';
import { Soonest } from './soonest.ts';
import type { Worker } from './worker.ts';

/** A job that waits, and its place among all that do. */
interface Place {
  job: WaitingJob;
  order: number;
}

/** Waiting jobs that wait for a slot, by the model that they wait for: highest priority first, then the oldest. */
export class WaitingLine {
  /** Epoch ms at which the next one is to be rejected. */
  readonly nextRejection = new Soonest();
  readonly #places = new Map<string | null, Place[]>();
  readonly #ofPool = new Map<string, number>();
  readonly #ofTenant = new Map<string, number>();
  readonly #bytesOfTenant = new Map<string, number>();
  #bytes = 0;
  #size = 0;
  #order = 0;

  get size(): number {
    return this.#size;
  }

  /** By the model that they wait for; null: any. */
  *byModel(): Generator<[model: string | null, jobs: WaitingJob[]]> {
    for (const [model, places] of this.#places) yield [model, places.map(({ job }) => job)];
  }

  /**
   * The first ones that this worker serves and has not declined: those of the highest priority there is.
   * @param most how many
   */
  nextFor({ session, models, declined }: Worker, most: number): WaitingJob[] {
    if (this.#size === 0) return [];
    const found: Place[] = [];
    for (const model of new Set([null, session.config_id, ...models, workerAlone(session.worker_id)])) {
      let taken = 0;
      for (const place of this.#places.get(model) ?? []) {
        if (place.job.held !== null || declined.has(place.job.id)) continue;
        found.push(place);
        taken += 1;
        if (taken === most) break;
      }
    }
    found.sort((one, other) => (goesBefore(one, other) ? -1 : 1));
    const jobs = found.slice(0, most).map(({ job }) => job);
    return jobs.filter(({ priority }) => priority === jobs[0]!.priority);
  }

  /** How many wait for a slot of this pool. */
  ofPool(configId: string): number {
    return this.#ofPool.get(configId) ?? 0;
  }

  /** How many of this tenant wait, in all pools. */
  ofTenant(tenant: string): number {
    return this.#ofTenant.get(tenant) ?? 0;
  }

  /** Bytes of all payloads that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of this tenant's payloads that wait. */
  bytesOfTenant(tenant: string): number {
    return this.#bytesOfTenant.get(tenant) ?? 0;
  }

  enter(job: WaitingJob): void {
    const place = { job, order: ++this.#order };
    const line = this.#places.get(job.model) ?? [];
    if (line.length === 0) this.#places.set(job.model, line);
    let at = line.length;
    while (at > 0 && goesBefore(place, line[at - 1]!)) at -= 1;
    line.splice(at, 0, place);
    this.#count(job, 1);
  }

  /** Does nothing where it does not wait. */
  leave(job: WaitingJob): void {
    const line = this.#places.get(job.model) ?? [];
    const at = line.findIndex((place) => place.job === job);
    if (at < 0) return;
    line.splice(at, 1);
    if (line.length === 0) this.#places.delete(job.model);
    this.#count(job, -1);
  }

  #count({ config_id, tenant, payload }: WaitingJob, change: number): void {
    this.#size += change;
    add(this.#ofPool, config_id, change);
    const bytes = change * payload.byteLength;
    this.#bytes += bytes;
    if (tenant === null) return;
    add(this.#ofTenant, tenant, change);
    add(this.#bytesOfTenant, tenant, bytes);
  }
}

function goesBefore(one: Place, other: Place): boolean {
  return one.job.priority === other.job.priority
    ? one.order < other.order
    : one.job.priority > other.job.priority;
}
