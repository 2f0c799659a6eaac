import type { JobView } from '../../protocol/index.ts';
import type { OverLimit } from '../limits/scope.ts';
import type { QueueSettings } from '../settings.ts';
import type { Backlog, Placed } from '../sharing/backlog.ts';
import { due } from '../store/alarm.ts';
import { viewOf } from '../store/job-view.ts';
import {
  deleteJobs,
  endJob,
  readFileKey,
  readKept,
  readPayload,
  readResult,
  releaseJob,
  retryJob,
  type StoredJob,
  setProgress,
  setResultFile,
} from '../store/jobs-table.ts';
import { extendLease, type ORPHANED, orphanLease, postponeLease } from '../store/leases-table.ts';
import { HELD, holdJob, isHeld, nextHeldId, unholdJob } from '../store/limits-table.ts';
import type { NewJobRow } from '../store/new-jobs.ts';
import { wakeDelayed } from '../store/pending-table.ts';
import type { Ports } from '../store/ports.ts';
import { latestSettlement } from '../store/settlements-table.ts';
import { postponeLeases } from '../store/times.ts';
import type { Ending, JobStore, Lease, Release, WaitingJob } from './job.ts';
import type { JobRows } from './job-rows.ts';
import type { KeptPartial } from './kept-partial.ts';
import type { LimitBook } from './limit-book.ts';
import { Listeners } from './listeners.ts';
import { PartialAnswers } from './partial-answers.ts';
import { Pending } from './pending.ts';
import type { ReadySet } from './ready-set.ts';
import { Waiters } from './waiters.ts';
import { Webhooks } from './webhooks.ts';

/** Columns that every lease sets alike. */
const AT_LEASE = {
  state: 'leased',
  started_at: null,
  first_token_at: null,
  lease_orphaned: 0,
  progress: null,
  status_message: null,
  result_file: null,
} as const;

/** Jobs that are rows. */
export class StoredJobs implements JobStore<StoredJob> {
  readonly pending: Pending;
  /** Calls answered when a job settles. */
  readonly waiters = new Waiters();
  /** Calls answered also when a job is given to a worker. */
  readonly followers = new Waiters();
  readonly listeners: Listeners;
  /** The number of the newest settlement; numbers only grow. */
  #latestSettlement: number;
  readonly webhooks: Webhooks;
  /** Of attempts that run. */
  readonly partials = new PartialAnswers();
  readonly #rows: JobRows;
  readonly #ports: Ports;
  readonly #settings: QueueSettings;
  readonly #ready: ReadySet;
  readonly #limits: LimitBook;

  /** @param ports whose `sql` is that of `rows` */
  constructor(
    ports: Ports,
    rows: JobRows,
    settings: QueueSettings,
    ready: ReadySet,
    backlog: Backlog<WaitingJob>,
    limits: LimitBook,
  ) {
    this.#ports = ports;
    this.#rows = rows;
    this.#settings = settings;
    this.#ready = ready;
    this.#limits = limits;
    this.listeners = new Listeners(() => ports.now());
    this.pending = new Pending(ports.sql, backlog);
    this.#latestSettlement = latestSettlement(ports.sql);
    this.webhooks = new Webhooks(ports);
  }

  find(id: string): StoredJob | null {
    return this.#rows.find(id);
  }

  /**
   * Returns the oldest ready job of a tenant, without those in `except` and those that name one of these models.
   * @param ready how many it has, new ones included
   */
  nextReady(
    place: Placed,
    ready: number,
    except: ReadonlySet<string>,
    models: ReadonlySet<string>,
  ): StoredJob | null {
    return this.#rows.nextReady(place, ready, except, models);
  }

  /** Retry delays that are over. */
  wake(): void {
    for (const place of wakeDelayed(this.#ports.sql, this.#ports.now())) {
      this.pending.ready(place);
      this.#ready.pool(place.config_id);
    }
  }

  /** The payload of a job that is sent now; null: it lies in a file. */
  takePayload(id: string): string | null {
    return this.#rows.takeText(id) ?? readPayload(this.#ports.sql, id);
  }

  /** What the next attempt goes on from; null: it begins anew. */
  kept({ id, fence_token }: StoredJob): KeptPartial | null {
    // The first attempt, as nearly all are.
    const text = fence_token === 0 ? null : readKept(this.#ports.sql, id);
    return text === null ? null : (JSON.parse(text) as KeptPartial);
  }

  /** The result of a job that is about to be told. Null: there is none, or it lies in a file. */
  takeResult(id: string): string | null {
    return this.#rows.takeText(id) ?? readResult(this.#ports.sql, id);
  }

  /** Ready to be given out, unless the limits of its token hold it back. Its row is written at the end of the command. */
  insert(row: Omit<NewJobRow, 'run_after'>): StoredJob {
    const job = this.#rows.insert({ ...row, run_after: this.#heldUntil(row) });
    this.#added(job);
    return job;
  }

  /** At the end of every command. */
  writeNew(): void {
    this.#rows.flush();
  }

  #added(job: StoredJob): void {
    if (job.deadline_at !== null) due(this.#ports, job.deadline_at);
    this.pending.entered(job);
    if (isHeld(job)) return this.#limits.holdStored(job);
    this.#limits.waitsForSlot(job);
    this.#ready.pool(job.config_id);
  }

  /** Its `run_after`. */
  #heldUntil(job: Pick<StoredJob, 'id' | 'token_name' | 'config_id' | 'priority' | 'cost'>): number | null {
    return this.#limits.mustHold(job) || this.#limits.over(job) !== null ? HELD : null;
  }

  /**
   * The next job that the limits of its token hold back in a pool and a priority waits for a slot, if they have room.
   * @returns what keeps it; null: nothing does
   * @throws where there is none: what is counted as held back is not what is stored
   */
  unholdNext(place: Pick<StoredJob, 'token_name' | 'config_id' | 'priority'>): OverLimit | null {
    const id = nextHeldId(this.#ports.sql, place);
    const job = id === null ? null : this.find(id);
    if (job === null) throw new Error(`no job is held back where one is counted: ${JSON.stringify(place)}`);
    const over = this.#limits.over(job);
    if (over !== null) return over;
    unholdJob(this.#ports.sql, job.id);
    this.#rows.forget(job.id);
    this.pending.ready(job);
    this.#limits.unholdStored(job);
    this.#limits.waitsForSlot(job);
    this.#ready.pool(job.config_id);
    return null;
  }

  /**
   * The job is about to be given to a worker. Only now does it take from its token's limits, so that a waiting job
   * never holds up others of the token.
   * @returns false: others have used the limit up meanwhile, and it is held back
   */
  letIn(job: StoredJob): boolean {
    if (this.#limits.letInStored(job, job.leased_at !== null) === null) return true;
    this.#rows.forget(job.id);
    holdJob(this.#ports.sql, job.id);
    this.pending.left(job);
    this.pending.entered({ ...job, run_after: HELD });
    this.#limits.leftLine(job);
    this.#limits.holdStored(job);
    return false;
  }

  lease(job: StoredJob, lease: Lease): StoredJob {
    this.#leavePending(job);
    this.partials.forget(job.id);
    due(this.#ports, lease.lease_expires_at);
    const { file_key: _, ...columns } = lease;
    const leased: StoredJob = { ...job, ...columns, ...AT_LEASE };
    this.#rows.lease(leased, lease);
    this.followers.tell(job.id, () => this.#view(job.id));
    return leased;
  }

  extend(job: StoredJob, workerId: string, expiresAt: number): void {
    if (job.state === 'pending') this.#leavePending(job);
    this.#limits.letInAgain(job, null);
    this.#rows.forget(job.id);
    extendLease(this.#ports.sql, job.id, job.fence_token, workerId, expiresAt);
    due(this.#ports, expiresAt);
  }

  orphan(job: StoredJob, expiresAt: number, by: (typeof ORPHANED)[keyof typeof ORPHANED]): void {
    this.#rows.forget(job.id);
    orphanLease(this.#ports.sql, job.id, job.fence_token, expiresAt, by);
    due(this.#ports, expiresAt);
  }

  /** @param isOverdue whether its lease was found overdue now, and expires at the new time, epoch ms */
  postpone(job: StoredJob, expiresAt: number, isOverdue: boolean): void {
    this.#rows.forget(job.id);
    postponeLease(this.#ports.sql, job, expiresAt, isOverdue);
  }

  /** Every lease that was not found overdue. */
  postponeAll(byMs: number): void {
    this.#rows.forgetAll();
    postponeLeases(this.#ports.sql, byMs);
  }

  /** Null: unchanged. */
  progress({ id, fence_token }: StoredJob, progress: number | null, text: string | null): void {
    this.#rows.forget(id);
    setProgress(this.#ports.sql, id, fence_token, progress, text);
  }

  /** The result of its newest attempt lies in a file. */
  setResultFile({ id, fence_token }: StoredJob, file: string): void {
    this.#rows.forget(id);
    setResultFile(this.#ports.sql, id, fence_token, file);
  }

  release(job: StoredJob, change: Release): void {
    if (job.state === 'pending') this.#leavePending(job);
    this.pending.entered({ ...job, run_after: change.run_after });
    this.#limits.end(job.id);
    this.partials.forget(job.id);
    this.#rows.forget(job.id);
    releaseJob(this.#ports.sql, job, change);
    if (change.run_after !== null) due(this.#ports, change.run_after);
    else this.#ready.pool(job.config_id);
  }

  end(job: StoredJob, ending: Ending): void {
    const now = this.#ports.now();
    if (job.state === 'pending') this.#leavePending(job);
    this.#limits.end(job.id);
    this.partials.forget(job.id);
    this.#latestSettlement += 1;
    const settlement = this.#latestSettlement;
    const result_file = ending.state === 'succeeded' && ending.result === null ? job.result_file : null;
    const result = endJob(this.#ports.sql, job, { ...ending, result_file }, now, settlement);
    this.#ended({ ...job, result_file }, ending, now, result);
    this.webhooks.settled(job, settlement);
    due(this.#ports, now + this.#settings.retention_seconds * 1000);
    for (const listening of [this.waiters, this.followers]) listening.tell(job.id, () => this.#view(job.id));
    this.listeners.settled(job.id);
  }

  #leavePending(job: StoredJob): void {
    this.pending.left(job);
    if (isHeld(job)) this.#limits.unholdStored(job);
    this.#limits.leftLine(job);
  }

  /** @param text of the result as it lies in the row */
  #ended(job: StoredJob, ending: Ending, now: number, text: string | null): void {
    if (ending.state !== 'succeeded') return this.#rows.forget(job.id);
    const { result: _, ...columns } = ending;
    const settled = { ...job, ...columns, settled_at: now, lease_expires_at: null, run_after: null };
    this.#rows.settled(settled, this.listeners.hear(job.id) ? text : null);
  }

  /** Failed or expired → pending, ready to be given out, with as much time as it had. @returns the job as it is now */
  retry(job: StoredJob): StoredJob {
    const { deadline_at, created_at } = job;
    const deadlineAt = deadline_at === null ? null : this.#ports.now() + deadline_at - created_at;
    const retried = retryJob(this.#ports.sql, job.id, {
      deadline_at: deadlineAt,
      run_after: this.#heldUntil(job),
    });
    this.#rows.forget(job.id);
    this.#added(retried);
    return retried;
  }

  /** Settled long ago. */
  remove(jobs: readonly Pick<StoredJob, 'seq' | 'id'>[]): void {
    for (const { id } of jobs) this.#rows.forget(id);
    deleteJobs(
      this.#ports.sql,
      jobs.map(({ seq }) => seq),
    );
  }

  #view(jobId: string): JobView | null {
    const job = this.find(jobId);
    return job === null ? null : viewOf(this.#ports.sql, job);
  }

  fileKey(job: StoredJob): string | null {
    return job.fence_token === 0 ? null : readFileKey(this.#ports.sql, job.id);
  }
}
