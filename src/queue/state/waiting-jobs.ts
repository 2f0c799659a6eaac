import type { Admission } from '../../admission/admission.ts';
import type { Backlog } from '../../admission/backlog.ts';
import type { Ending, JobStore, Lease, WaitingJob } from '../job.ts';
import type { RequestAnswer } from '../rpc.ts';
import { add } from './pending.ts';
import type { ReadySet } from './ready-set.ts';

/** The waiting jobs; nothing here costs a statement or a commit. */
export class WaitingJobs implements JobStore<WaitingJob> {
  readonly line: WaitingLine;
  /** Epoch ms at which the next running job has reached its time limit. */
  readonly #nextLimit = new Soonest();
  readonly #ready: ReadySet;
  readonly #admission: Admission<WaitingJob>;
  readonly #jobs = new Map<string, WaitingJob>();

  constructor(ready: ReadySet, backlog: Backlog<WaitingJob>, admission: Admission<WaitingJob>) {
    this.#ready = ready;
    this.line = new WaitingLine(backlog);
    this.#admission = admission;
  }

  get size(): number {
    return this.#jobs.size;
  }

  find(id: string): WaitingJob | null {
    return this.#jobs.get(id) ?? null;
  }

  /** Returns a copy, since jobs may end while the caller goes through it. */
  all(): WaitingJob[] {
    return [...this.#jobs.values()];
  }

  isPending(job: WaitingJob): boolean {
    return job.state === 'pending' && this.#jobs.get(job.id) === job;
  }

  /** Adds a job that waits for a slot. */
  add(job: WaitingJob): void {
    this.#jobs.set(job.id, job);
    this.#admission.entered(job);
    this.line.enter(job);
    this.#ready.job(job);
  }

  /** Lets a job wait for a slot that was held back. */
  admitted(job: WaitingJob): void {
    this.line.admitted(job);
    this.#ready.job(job);
  }

  /** Removes a job that is over or released. */
  remove(job: WaitingJob): void {
    this.line.leave(job);
    if (this.#jobs.get(job.id) !== job) return;
    this.#jobs.delete(job.id);
    this.#admission.left(job);
  }

  /** Epoch ms at which a running job may have reached its time limit; infinite if none has one. */
  get nextLimit(): number {
    return this.#nextLimit.get(0, () => Math.min(...this.all().map(limitOf)));
  }

  /** Forgets the next time limit, since the jobs that had reached it are over. */
  forgetLimits(): void {
    this.#nextLimit.forget();
  }

  lease(job: WaitingJob, { fence_token, worker_id, leased_at, file_key }: Lease): WaitingJob {
    this.line.leave(job);
    this.#nextLimit.lower(limitOf(job));
    return Object.assign(job, { state: 'leased', fence_token, worker_id, leased_at, file_key });
  }

  extend(job: WaitingJob): void {
    job.lease_expires_at = null;
  }

  orphan(job: WaitingJob, expiresAt: number): void {
    job.lease_expires_at = expiresAt;
  }

  /** Removes the job. If a relay carries its answer, the gateway knows and asks again; else the job waits again. */
  release(job: WaitingJob): void {
    this.remove(job);
    if (job.reply === null) return;
    this.#admission.readmit(job);
    this.add({
      ...job,
      state: 'pending',
      fence_token: 0,
      worker_id: null,
      lease_expires_at: null,
      is_repeat: true,
    });
  }

  end(job: WaitingJob, ending: Ending): void {
    this.remove(job);
    job.reply?.(answerOf(job, ending));
    job.reply = null;
  }

  fileKey(job: WaitingJob): string | null {
    return job.file_key;
  }
}

/**
 * Waiting jobs without a slot, by the model that they wait for. The backlog decides in which order they get one; it
 * leaves out those that admission holds back.
 */
class WaitingLine {
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

/** Returns the time limit of a running job; the waiting line rejects pending ones in time (waiting.ts). */
function limitOf({ limit_at }: WaitingJob): number {
  return limit_at ?? Number.POSITIVE_INFINITY;
}

function answerOf({ worker_id }: WaitingJob, ending: Ending): RequestAnswer {
  const by = worker_id ?? '';
  switch (ending.state) {
    case 'succeeded':
      return { kind: 'result', result: ending.result ?? {}, worker_id: by };
    case 'cancelled':
      return {
        kind: 'refused',
        reason: 'cancelled',
        message: ending.error.message,
        retry_after_seconds: 0,
      };
    case 'failed':
    case 'expired':
      return { kind: 'error', failure: ending.error, worker_id: by };
  }
}

/**
 * The soonest of many times, kept without looking at all of them after every event. It is never too late. It may be too
 * early, if the entry that it came from is gone: then there is nothing to do at that time, and it is computed again.
 */
export class Soonest {
  #atMs: number | null = null;
  #version = 0;

  /**
   * Returns the soonest time.
   * @param version of whatever else the times depend on; a change makes the stored time stale
   * @param find looks at all of them
   */
  get(version: number, find: () => number): number {
    if (this.#atMs === null || this.#version !== version) this.#atMs = find();
    this.#version = version;
    return this.#atMs;
  }

  /** Takes one more time into account. */
  lower(atMs: number): void {
    if (this.#atMs !== null) this.#atMs = Math.min(this.#atMs, atMs);
  }

  /** Forgets the soonest time, since what it came from is over. */
  forget(): void {
    this.#atMs = null;
  }
}
