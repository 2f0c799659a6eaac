import type { OverLimit } from '../admission/scope.ts';
import type { Failure, JobState, Timing } from '../protocol/index.ts';
import type { EarlierAttempts, JobExtras, RequestAnswer } from './rpc.ts';

/**
 * A job. Its mode says whether it survives a restart: `stored` is a row; `waiting` is kept in memory for the caller
 * that waits over a connection, costs no commit, and is asked for again by the gateway under the same id if the queue
 * restarts. Fields that both modes have (id, state, fence, holder, lease, deadline, attempts) mean the same in both,
 * and every command treats them alike; the store of each mode does what differs.
 */
export type Job = StoredJob | WaitingJob;

/** Whether a job gives way to interactive work: lines of batches, and all else with a priority below 0. */
export function isBatchWork({ priority }: Pick<Job, 'priority'>): boolean {
  return priority < 0;
}

/** The fields that both kinds of jobs have, with one meaning. Times in epoch ms. */
interface AnyJob {
  id: string;
  job_type: string;
  /** The job's pool; empty if a waiting job's model is served by none that is known. */
  config_id: string;
  /** The model that the job names, or that a waiting job waits for; null: any. */
  model: string | null;
  /** The tenant that owns the job; null where no tokens are configured. */
  tenant: string | null;
  /** The name of the token that submitted the job; null where no tokens are configured. */
  token_name: string | null;
  /** The features' data about the job; never changed. */
  readonly extras: JobExtras;
  state: JobState;
  priority: number;
  /** Attempts that failed and were charged; the API's number counts more (job-view.ts `attemptsOf`). */
  attempts: number;
  max_attempts: number;
  /** JSON of the error of each attempt that was charged. */
  attempt_errors: string;
  fence_token: number;
  /**
   * The worker that holds the job; of a pending job the last one that did, which alone may still settle or resume it.
   */
  worker_id: string | null;
  /** The time of the job's submission, or of the gateway's newest request for it. */
  created_at: number;
  /** The beginning of the newest lease. */
  leased_at: number | null;
  /** The time at which the job is given up; its worker knows it. */
  deadline_at: number | null;
  /** The end of the lease; null of a waiting job while its worker is connected, since the connection is the lease. */
  lease_expires_at: number | null;
}

/** A job that survives a restart: a row of `jobs`, without payload and result (jobs-table.ts). */
export interface StoredJob extends AnyJob {
  readonly mode: 'stored';
  seq: number;
  error: string | null;
  progress: number | null;
  status_message: string | null;
  /** The time when the newest attempt reached the engine; null if its worker did not report it. */
  started_at: number | null;
  /** The time of the newest attempt's first token; null if its worker did not report it. */
  first_token_at: number | null;
  settled_at: number | null;
  /** The time from which the job's next attempt may be made; null if it need not wait for that. */
  run_after: number | null;
  /** 1 if the job is pending and admission control holds it back. */
  is_held: 0 | 1;
  /** One of ORPHANED while the lease waits for its worker to return, else 0; with OVERDUE once it was found overdue. */
  lease_orphaned: number;
  /** 1 if a relay carries the answer too, while it is made. */
  stream: 0 | 1;
  /** The file that holds the payload; null if the row holds it. */
  payload_file: string | null;
  /** The file that holds the result of the newest attempt, settled or not yet; null if there is none. */
  result_file: string | null;
}

/** The worker that made the beginning of an answer, and what it served. */
export interface MadeBy {
  worker_id: string | null;
  /** Undefined: the worker does not say what it served, as older ones. */
  model_identity: string | undefined;
}

/**
 * A job whose caller waits over a connection. It is only ever `pending` or `leased` (protocol/jobs.ts): a settled one
 * is removed. It has one attempt; the gateway decides whether another is made.
 */
export interface WaitingJob extends AnyJob {
  readonly mode: 'waiting';
  /** The caller's own id for the request; null if the caller gave none. */
  request_id: string | null;
  route: string;
  /** The payload as bytes, outside V8's heap: strings would fill the heap, whose limit is the same on any machine. */
  payload: Uint8Array<ArrayBuffer>;
  state: 'pending' | 'leased';
  readonly attempts: 0;
  readonly max_attempts: 1;
  readonly attempt_errors: '[]';
  /** The time of the caller's own request, epoch ms: before `created_at` if the gateway asks again. */
  submitted_at: number;
  /** The time at which the queue ends the job, pending or leased, epoch ms; its worker does not know it. */
  limit_at: number | null;
  /** The time at which the pending job is rejected for want of a worker, epoch ms. */
  worker_by: number;
  /** The time at which the pending job is rejected for want of a free slot, epoch ms. */
  slot_by: number;
  /** Whether the job also waits as long as a worker's start may take, since its caller set no limit to its waiting. */
  waits_for_start: boolean;
  /** The time until which the job waits for a start, since its alias has another step then, epoch ms; null: no limit. */
  start_by: number | null;
  /** Whether there was room for the job among the waiting jobs. */
  has_room: boolean;
  /** Whether the gateway requested the job before, or it was released; such a job is not counted again. */
  is_repeat: boolean;
  /** The limit that holds the job back (admission/held.ts); null if the job is admitted. */
  held: OverLimit | null;
  /** The time of the job's admission, epoch ms; null while it is held back. */
  admitted_at: number | null;
  /** Whether the gateway asks again for a job that was admitted and is over (admission/job.ts). */
  is_counted: boolean;
  /** The number of times that a later job got the slot that this job was next for (dispatch/choose.ts). */
  passed_over: number;
  /** The key to the payload's file, if the payload is sent by reference; else null. */
  file_key: string | null;
  /** An earlier attempt that the gateway lost and a worker may still run; it ends when this one goes elsewhere. */
  older: { worker_id: string; fence_token: number } | null;
  /** The gateway's report of earlier attempts; null if there were none. */
  earlier: EarlierAttempts | null;
  /** Workers at which attempts of the job failed, or whose answer is moved (dispatch/retries.ts). */
  failed_at: readonly string[];
  /** Who made the beginning of a moved answer, since only its equals go on with it; null: the answer was not moved. */
  made_by: MadeBy | null;
  /**
   * The times at which a moved answer's first worker got the job and its caller the first token, epoch ms; null if it
   * was not moved.
   */
  begun: { given_at: number; first_token_at: number } | null;
  /** The number of the process whose relay passes the answer on. */
  home: number;
  /** Answers the gateway; null once it has, which is at dispatch if a relay carries the answer. */
  reply: ((answer: RequestAnswer) => void) | null;
}

/** The party that was gone when a lease began to wait: its worker, which can be blamed, or the queue, which cannot. */
export const ORPHANED = { byWorker: 1, byQueue: 2 } as const;

/** A flag beside one of ORPHANED: the lease was found overdue. */
export const OVERDUE = 4;

/** The record of an attempt that its dispatch makes. Times in epoch ms. */
export interface Lease {
  fence_token: number;
  worker_id: string;
  leased_at: number;
  lease_expires_at: number;
  /** The key to the files of this attempt; null if it has none. */
  file_key: string | null;
}

/** The changes that a released or failed attempt makes to its job. */
export interface Release {
  attempts: number;
  /** JSON of the errors of all attempts. */
  attempt_errors: string;
  /** Epoch ms before which the job is not given out again; null if it is ready. */
  run_after: number | null;
  /** JSON of the KeptPartial that a stored job's next attempt goes on from; null leaves the row's own. */
  kept: string | null;
}

/** The party that ended a job or an attempt. The relay knows of the end already only if it was the worker. */
export type EndedBy = 'worker' | 'caller' | 'queue';

/** The way in which a job ends. */
export type Ending = {
  /** The worker that had the job at its end; null if none had it. */
  worker_id: string | null;
  attempts: number;
  /** JSON of the errors of all attempts. */
  attempt_errors: string;
} & (
  | { state: 'succeeded'; result: Record<string, unknown> | null; error: null }
  | { state: 'failed' | 'cancelled' | 'expired'; result: null; error: Failure }
);

/**
 * Stores all jobs of one mode. It makes the transitions that its caller has decided on, and notifies all that depends
 * on them: the alarm, the counts of pending jobs, the next dispatch pass.
 */
export interface JobStore<J extends Job> {
  /** Moves a job from `pending` to `leased`. @returns the job as it is now */
  lease(job: J, lease: Lease): J;
  /**
   * Keeps a job `leased`, or leases a `pending` one again, to the worker that goes on with it.
   * @param expiresAt epoch ms
   */
  extend(job: J, workerId: string, expiresAt: number): void;
  /** Lets the lease of a worker that is gone wait for it. @param expiresAt epoch ms */
  orphan(job: J, expiresAt: number, by: (typeof ORPHANED)[keyof typeof ORPHANED]): void;
  /** Makes a `leased` or `pending` job `pending`. */
  release(job: J, change: Release): void;
  /** Settles a job from any state. A waiting job's caller is answered. */
  end(job: J, ending: Ending): void;
  /** Returns the key to the files of the job's newest attempt, or null before the first. */
  fileKey(job: J): string | null;
}

/** Returns when the caller requested the job, epoch ms: the first time, however often the gateway asks again. */
export function submittedAt(job: Job): number {
  return job.mode === 'stored' ? job.created_at : job.submitted_at;
}

/** Returns when a worker was first given the job, epoch ms; null if none was. */
export function givenAt(job: Job): number | null {
  return beginningOf(job)?.given_at ?? job.leased_at;
}

/**
 * Returns when the caller had its first token, epoch ms; null if that is not known.
 * @param at when the attempt ended that reported this timing, epoch ms
 */
export function firstTokenAt(job: Job, at: number, timing: Timing | undefined): number | null {
  const begun = beginningOf(job);
  if (begun !== null) return begun.first_token_at;
  if (job.leased_at === null || timing?.first_token_ms === undefined) return null;
  return Math.min(at, Math.round(job.leased_at + timing.first_token_ms));
}

/** Returns an attempt's times from the durations its worker reports: clocks of two machines are never compared. */
export function timesOf(
  { leased_at }: Pick<StoredJob, 'leased_at'>,
  now: number,
  timing: Timing = {},
): Pick<StoredJob, 'started_at' | 'first_token_at'> {
  const at = (ms: number | undefined) =>
    ms === undefined || leased_at === null ? null : Math.min(now, Math.round(leased_at + ms));
  return { started_at: at(timing.started_ms), first_token_at: at(timing.first_token_ms) };
}

/** Returns how a moved answer began, since its newest worker reports only the rest; null if it was not moved. */
function beginningOf(job: Job): WaitingJob['begun'] {
  return job.mode === 'waiting' ? job.begun : null;
}
