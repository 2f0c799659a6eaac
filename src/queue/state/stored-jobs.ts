import type { JobView } from '../../protocol/index.ts';
import type { QueueSettings } from '../settings.ts';
import { due } from '../store/alarm.ts';
import { viewOf } from '../store/job-view.ts';
import { endJob, findJob, readFileKey, releaseJob, type StoredJob } from '../store/jobs-table.ts';
import { extendLease, leaseJob, type ORPHANED, orphanLease } from '../store/leases-table.ts';
import type { Storage } from '../store/ports.ts';
import { dropUploads } from '../store/uploads-table.ts';
import type { Ending, JobStore, Lease, Release } from './job.ts';
import { Listeners } from './listeners.ts';
import type { Openings } from './openings.ts';
import { Pending } from './pending.ts';
import { Waiters } from './waiters.ts';

/** Jobs that are rows. */
export class StoredJobs implements JobStore<StoredJob> {
  readonly pending: Pending;
  /** Those who asked to hear when a job settles. */
  readonly waiters = new Waiters();
  /** Those who asked to hear also when a job is given to a worker. */
  readonly followers = new Waiters();
  /** Those who hear of many jobs at once. */
  readonly listeners: Listeners;
  readonly #storage: Storage;
  readonly #settings: QueueSettings;
  readonly #openings: Openings;

  constructor(storage: Storage, settings: QueueSettings, openings: Openings) {
    this.#storage = storage;
    this.#settings = settings;
    this.#openings = openings;
    this.pending = new Pending(storage.sql);
    this.listeners = new Listeners(() => storage.now());
  }

  find(id: string): StoredJob | null {
    return findJob(this.#storage.sql, id);
  }

  /** A job was stored, ready to be given out. */
  added(job: StoredJob): void {
    if (job.deadline_at !== null) due(this.#storage, job.deadline_at);
    this.pending.entered(job);
    this.#openings.config(job.config_id);
  }

  lease(job: StoredJob, lease: Lease): StoredJob {
    leaseJob(this.#storage.sql, job.id, lease);
    this.pending.left(job);
    due(this.#storage, lease.lease_expires_at);
    this.followers.tell(job.id, () => this.#view(job.id));
    const { file_key: _, ...columns } = lease;
    return { ...job, ...columns, state: 'leased', started_at: null, first_token_at: null, lease_orphaned: 0 };
  }

  extend(job: StoredJob, workerId: string, expiresAt: number): void {
    if (job.state === 'pending') this.pending.left(job);
    extendLease(this.#storage.sql, job.id, job.fence_token, workerId, expiresAt);
    due(this.#storage, expiresAt);
  }

  orphan(job: StoredJob, expiresAt: number, by: (typeof ORPHANED)[keyof typeof ORPHANED]): void {
    orphanLease(this.#storage.sql, job.id, job.fence_token, expiresAt, by);
    due(this.#storage, expiresAt);
  }

  release(job: StoredJob, change: Release): void {
    if (job.state === 'leased') this.pending.entered(job);
    releaseJob(this.#storage.sql, job, change);
    if (change.run_after !== null) due(this.#storage, change.run_after);
    else this.#openings.config(job.config_id);
  }

  end(job: StoredJob, ending: Ending): void {
    const now = this.#storage.now();
    if (job.state === 'pending') this.pending.left(job);
    dropUploads(this.#storage, job.id);
    endJob(this.#storage.sql, job, ending, now);
    due(this.#storage, now + this.#settings.retention_seconds * 1000);
    for (const listening of [this.waiters, this.followers]) listening.tell(job.id, () => this.#view(job.id));
    this.listeners.settled(job.id);
  }

  #view(jobId: string): JobView | null {
    const job = this.find(jobId);
    return job === null ? null : viewOf(this.#storage.sql, job);
  }

  fileKey(job: StoredJob): string | null {
    return job.fence_token === 0 ? null : readFileKey(this.#storage.sql, job.id);
  }
}
