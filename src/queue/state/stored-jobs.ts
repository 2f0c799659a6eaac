import type { Admission } from '../../admission/admission.ts';
import type { Backlog, Placed } from '../../admission/backlog.ts';
import type { Line } from '../../admission/held.ts';
import type { QueueSettings } from '../../settings/queue-settings.ts';
import type { Ending, JobStore, Lease, ORPHANED, Release, StoredJob, WaitingJob } from '../job.ts';
import {
  deleteJobs,
  endJob,
  eraseContents,
  readFileKey,
  readKept,
  readPayload,
  readResult,
  releaseJob,
  retryJob,
  setProgress,
  setResultFile,
} from '../store/jobs-table.ts';
import { extendLease, orphanLease, postponeLease } from '../store/leases-table.ts';
import type { NewJobRow } from '../store/new-jobs.ts';
import { holdJob, moveJob, nextHeldId, wakeDelayed } from '../store/pending-table.ts';
import type { Ports } from '../store/ports.ts';
import { due } from '../store/ports.ts';
import { latestSettlement } from '../store/settlements-table.ts';
import { postponeLeases } from '../store/times.ts';
import type { JobRows } from './job-rows.ts';
import type { KeptPartial } from './partial-answers.ts';
import { PartialAnswers } from './partial-answers.ts';
import { Pending } from './pending.ts';
import type { ReadySet } from './ready-set.ts';

/** Columns that every lease sets to the same values. */
const AT_LEASE = {
  state: 'leased',
  started_at: null,
  first_token_at: null,
  lease_orphaned: 0,
  progress: null,
  status_message: null,
  result_file: null,
} as const;

/** The stored jobs, which are rows. */
export class StoredJobs implements JobStore<StoredJob> {
  readonly pending: Pending;
  #latestSettlement: number;
  /** The partial answers of attempts that run. */
  readonly partials = new PartialAnswers();
  readonly #rows: JobRows;
  readonly #ports: Ports;
  readonly #settings: QueueSettings;
  readonly #ready: ReadySet;
  readonly #admission: Admission<WaitingJob>;

  /** @param ports with the `sql` of `rows` */
  constructor(
    ports: Ports,
    rows: JobRows,
    settings: QueueSettings,
    ready: ReadySet,
    backlog: Backlog<WaitingJob>,
    admission: Admission<WaitingJob>,
  ) {
    this.#ports = ports;
    this.#rows = rows;
    this.#settings = settings;
    this.#ready = ready;
    this.#admission = admission;
    this.pending = new Pending(ports.sql, backlog);
    this.#latestSettlement = latestSettlement(ports.sql);
  }

  /** The number of the newest settlement among all of this queue; numbers only grow. */
  get latestSettlement(): number {
    return this.#latestSettlement;
  }

  find(id: string): StoredJob | null {
    return this.#rows.find(id);
  }

  /**
   * Returns the tenant's oldest ready job, without those in `except` and those that name one of these models.
   * @param ready how many ready jobs the tenant has, new ones included
   */
  nextReady(
    place: Placed,
    ready: number,
    except: ReadonlySet<string>,
    models: ReadonlySet<string>,
  ): StoredJob | null {
    return this.#rows.nextReady(place, ready, except, models);
  }

  /** Makes the jobs ready whose retry delay is over. */
  wake(): void {
    for (const place of wakeDelayed(this.#ports.sql, this.#ports.now())) {
      this.pending.ready(place);
      this.#ready.pool(place.config_id);
    }
  }

  /** Takes the payload of a job that is sent now; null if it lies in a file. */
  takePayload(id: string): string | null {
    return this.#rows.takeText(id) ?? readPayload(this.#ports.sql, id);
  }

  /** Returns what the job's next attempt goes on from; null if it begins anew. */
  kept({ id, fence_token }: StoredJob): KeptPartial | null {
    // Nearly every attempt is its job's first, which has nothing to go on from.
    const text = fence_token === 0 ? null : readKept(this.#ports.sql, id);
    return text === null ? null : (JSON.parse(text) as KeptPartial);
  }

  /** Takes the result of a job that is about to be reported; null if there is none or it lies in a file. */
  takeResult(id: string): string | null {
    return this.#rows.takeText(id) ?? readResult(this.#ports.sql, id);
  }

  /** Adds a job that is ready unless admission holds it back. The end of the command writes its row. */
  insert(row: Omit<NewJobRow, 'is_held'>): StoredJob {
    const job = this.#rows.insert({ ...row, is_held: this.#admission.holds(row) ? 1 : 0 });
    this.#added(job);
    return job;
  }

  /** Writes the new rows, at the end of every command. */
  writeNew(): void {
    this.#rows.flush();
  }

  #added(job: StoredJob): void {
    if (job.deadline_at !== null) due(this.#ports, job.deadline_at);
    this.pending.entered(job);
    this.#admission.entered(job);
    if (job.is_held === 0) this.#ready.pool(job.config_id);
  }

  /**
   * Returns the oldest job of a token, pool and priority that is held back.
   * @throws if there is none: the count of held jobs differs from what is stored
   */
  oldestHeld(line: Line): StoredJob {
    const id = nextHeldId(this.#ports.sql, line);
    const job = id === null ? null : this.find(id);
    if (job === null) throw new Error(`no job is held back where one is counted: ${JSON.stringify(line)}`);
    return job;
  }

  /** Makes a job ready that was held back. */
  unhold(job: StoredJob): void {
    holdJob(this.#ports.sql, job.id, 0);
    this.#rows.forget(job.id);
    this.pending.ready(job);
    this.#ready.pool(job.config_id);
  }

  /**
   * Admits a job that is about to be given to a worker.
   * @returns false if others have used its limits up meanwhile, so that the job is held back
   */
  admit(job: StoredJob): boolean {
    if (this.#admission.admit(job).kind === 'admitted') return true;
    this.#rows.forget(job.id);
    holdJob(this.#ports.sql, job.id, 1);
    const held: StoredJob = { ...job, is_held: 1 };
    this.pending.left(job);
    this.pending.entered(held);
    this.#admission.entered(held);
    return false;
  }

  /** Moves a pending job to another pool or model, where nothing is left of what its attempts have made. */
  move(job: StoredJob, to: Pick<StoredJob, 'config_id' | 'model' | 'extras'>): void {
    this.#rows.forget(job.id);
    this.pending.left(job);
    this.#admission.left(job);
    this.partials.forget(job.id);
    const moved: StoredJob = { ...job, ...to, is_held: this.#admission.holds({ ...job, ...to }) ? 1 : 0 };
    moveJob(this.#ports.sql, moved);
    this.#added(moved);
  }

  lease(job: StoredJob, lease: Lease): StoredJob {
    this.pending.left(job);
    this.partials.forget(job.id);
    due(this.#ports, lease.lease_expires_at);
    const { file_key: _, ...columns } = lease;
    const leased: StoredJob = { ...job, ...columns, ...AT_LEASE };
    this.#rows.lease(leased, lease);
    return leased;
  }

  extend(job: StoredJob, workerId: string, expiresAt: number): void {
    if (job.state === 'pending') this.pending.left(job);
    this.#admission.readmit(job);
    this.#rows.forget(job.id);
    extendLease(this.#ports.sql, job.id, job.fence_token, workerId, expiresAt);
    due(this.#ports, expiresAt);
  }

  orphan(job: StoredJob, expiresAt: number, by: (typeof ORPHANED)[keyof typeof ORPHANED]): void {
    this.#rows.forget(job.id);
    orphanLease(this.#ports.sql, job.id, job.fence_token, expiresAt, by);
    due(this.#ports, expiresAt);
  }

  /** Lets a lease expire later. @param expiresAt epoch ms @param isOverdue whether the lease was found overdue now */
  postpone(job: StoredJob, expiresAt: number, isOverdue: boolean): void {
    this.#rows.forget(job.id);
    postponeLease(this.#ports.sql, job, expiresAt, isOverdue);
  }

  /** Postpones every lease that was not found overdue. */
  postponeAll(byMs: number): void {
    this.#rows.forgetAll();
    postponeLeases(this.#ports.sql, byMs);
  }

  /** Stores the progress of the job's attempt; null leaves a value unchanged. */
  progress({ id, fence_token }: StoredJob, progress: number | null, text: string | null): void {
    this.#rows.forget(id);
    setProgress(this.#ports.sql, id, fence_token, progress, text);
  }

  /** Notes that the result of the job's newest attempt lies in a file. */
  setResultFile({ id, fence_token }: StoredJob, file: string): void {
    this.#rows.forget(id);
    setResultFile(this.#ports.sql, id, fence_token, file);
  }

  release(job: StoredJob, change: Release): void {
    if (job.state === 'pending') this.pending.left(job);
    this.pending.entered({ ...job, run_after: change.run_after, is_held: 0 });
    this.#admission.left(job);
    this.partials.forget(job.id);
    this.#rows.forget(job.id);
    releaseJob(this.#ports.sql, job, change);
    if (change.run_after !== null) due(this.#ports, change.run_after);
    else this.#ready.pool(job.config_id);
  }

  end(job: StoredJob, ending: Ending): void {
    const now = this.#ports.now();
    if (job.state === 'pending') this.pending.left(job);
    this.#admission.left(job);
    this.partials.forget(job.id);
    this.#latestSettlement += 1;
    const result_file = ending.state === 'succeeded' && ending.result === null ? job.result_file : null;
    const result = endJob(this.#ports.sql, job, { ...ending, result_file }, now, this.#latestSettlement);
    this.#ended({ ...job, result_file }, ending, now, result);
    due(this.#ports, now + this.#settings.retention_seconds * 1000);
  }

  /** Keeps the row of a job that succeeded, and forgets any other. @param text of the result as it lies in the row */
  #ended(job: StoredJob, ending: Ending, now: number, text: string | null): void {
    if (ending.state !== 'succeeded') return this.#rows.forget(job.id);
    const { result: _, ...columns } = ending;
    const settled = {
      ...job,
      ...columns,
      settled_at: now,
      lease_expires_at: null,
      run_after: null,
      is_held: 0,
    } as const;
    this.#rows.settled(settled, text);
  }

  /** Makes a failed or expired job pending, with as much time as it had. @returns the job as it is now */
  retry(job: StoredJob): StoredJob {
    const { deadline_at, created_at } = job;
    const deadlineAt = deadline_at === null ? null : this.#ports.now() + deadline_at - created_at;
    const retried = retryJob(this.#ports.sql, job.id, {
      deadline_at: deadlineAt,
      is_held: this.#admission.holds(job) ? 1 : 0,
    });
    this.#rows.forget(job.id);
    this.#added(retried);
    return retried;
  }

  /** Forgets what a settled job was asked and has answered, and the words of its errors. */
  eraseContents(job: StoredJob): void {
    this.#rows.forget(job.id);
    eraseContents(this.#ports.sql, job);
  }

  /** Returns whether the payload and result of a settled job were erased: every other job has a payload. */
  isErased({ id, payload_file }: StoredJob): boolean {
    return payload_file === null && readPayload(this.#ports.sql, id) === null;
  }

  /** Deletes jobs that settled long ago. */
  remove(jobs: readonly Pick<StoredJob, 'seq' | 'id'>[]): void {
    for (const { id } of jobs) this.#rows.forget(id);
    deleteJobs(
      this.#ports.sql,
      jobs.map(({ seq }) => seq),
    );
  }

  fileKey(job: StoredJob): string | null {
    return job.fence_token === 0 ? null : readFileKey(this.#ports.sql, job.id);
  }
}
