import type { JobView } from '../../protocol/index.ts';
import type { QueueSettings } from '../settings.ts';
import { due } from '../store/alarm.ts';
import { viewOf } from '../store/job-view.ts';
import { endJob, findJob, readFileKey, releaseJob, retryJob, type StoredJob } from '../store/jobs-table.ts';
import { extendLease, leaseJob, type ORPHANED, orphanLease } from '../store/leases-table.ts';
import type { Ports } from '../store/ports.ts';
import { keepLatestSettlement } from '../store/settlements-table.ts';
import { dropUploads } from '../store/uploads-table.ts';
import type { Ending, JobStore, Lease, Release } from './job.ts';
import { Listeners } from './listeners.ts';
import type { Openings } from './openings.ts';
import { Pending } from './pending.ts';
import { Settlements } from './settlements.ts';
import { Waiters } from './waiters.ts';
import { Webhooks } from './webhooks.ts';

/** Jobs that are rows. */
export class StoredJobs implements JobStore<StoredJob> {
  readonly pending: Pending;
  /** Those who asked to hear when a job settles. */
  readonly waiters = new Waiters();
  /** Those who asked to hear also when a job is given to a worker. */
  readonly followers = new Waiters();
  /** Those who hear of many jobs at once. */
  readonly listeners: Listeners;
  readonly settlements: Settlements;
  readonly webhooks: Webhooks;
  readonly #ports: Ports;
  readonly #settings: QueueSettings;
  readonly #openings: Openings;

  constructor(ports: Ports, settings: QueueSettings, openings: Openings) {
    this.#ports = ports;
    this.#settings = settings;
    this.#openings = openings;
    this.listeners = new Listeners(() => ports.now());
    this.pending = new Pending(ports.sql);
    this.settlements = new Settlements(ports.sql);
    this.webhooks = new Webhooks(ports, settings);
  }

  find(id: string): StoredJob | null {
    return findJob(this.#ports.sql, id);
  }

  /** A job was stored, ready to be given out. */
  added(job: StoredJob): void {
    if (job.deadline_at !== null) due(this.#ports, job.deadline_at);
    this.pending.entered(job);
    this.#openings.config(job.config_id);
  }

  lease(job: StoredJob, lease: Lease): StoredJob {
    leaseJob(this.#ports.sql, job.id, lease);
    this.pending.left(job);
    due(this.#ports, lease.lease_expires_at);
    this.followers.tell(job.id, () => this.#view(job.id));
    const { file_key: _, ...columns } = lease;
    return { ...job, ...columns, state: 'leased', started_at: null, first_token_at: null, lease_orphaned: 0 };
  }

  extend(job: StoredJob, workerId: string, expiresAt: number): void {
    if (job.state === 'pending') this.pending.left(job);
    extendLease(this.#ports.sql, job.id, job.fence_token, workerId, expiresAt);
    due(this.#ports, expiresAt);
  }

  orphan(job: StoredJob, expiresAt: number, by: (typeof ORPHANED)[keyof typeof ORPHANED]): void {
    orphanLease(this.#ports.sql, job.id, job.fence_token, expiresAt, by);
    due(this.#ports, expiresAt);
  }

  release(job: StoredJob, change: Release): void {
    if (job.state === 'leased') this.pending.entered(job);
    releaseJob(this.#ports.sql, job, change);
    if (change.run_after !== null) due(this.#ports, change.run_after);
    else this.#openings.config(job.config_id);
  }

  end(job: StoredJob, ending: Ending): void {
    const now = this.#ports.now();
    if (job.state === 'pending') this.pending.left(job);
    dropUploads(this.#ports, job.id);
    const settlement = this.settlements.next();
    endJob(this.#ports.sql, job, ending, now, settlement);
    this.webhooks.settled(job, settlement);
    due(this.#ports, now + this.#settings.retention_seconds * 1000);
    for (const listening of [this.waiters, this.followers]) listening.tell(job.id, () => this.#view(job.id));
    this.listeners.settled(job.id);
  }

  /** Failed or expired → pending, ready to be given out, with as much time as it had. @returns the job as it is now */
  retry(job: StoredJob): StoredJob {
    const { deadline_at, created_at } = job;
    const deadlineAt = deadline_at === null ? null : this.#ports.now() + deadline_at - created_at;
    keepLatestSettlement(this.#ports.sql);
    const retried = retryJob(this.#ports.sql, job.id, deadlineAt);
    this.added(retried);
    return retried;
  }

  #view(jobId: string): JobView | null {
    const job = this.find(jobId);
    return job === null ? null : viewOf(this.#ports.sql, job);
  }

  fileKey(job: StoredJob): string | null {
    return job.fence_token === 0 ? null : readFileKey(this.#ports.sql, job.id);
  }
}
