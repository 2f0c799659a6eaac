import type { Failure } from '../../protocol/index.ts';
import type { OverLimit } from '../limits/scope.ts';
import type { EarlierAttempts, Prefix, RequestAnswer } from '../rpc.ts';
import type { StoredJob } from '../store/jobs-table.ts';
import type { ORPHANED } from '../store/leases-table.ts';

/**
 * A job. Its mode says whether it survives a restart: `stored` is a row; `waiting` is kept in memory for the caller that
 * waits over a connection, costs no commit, and is asked for again under the same id should the queue
 * restart. What both have (id, state, fence, holder, lease, deadline, attempts) means the same in both, and every
 * command treats them alike; the store of each mode does what differs.
 */
export type Job = StoredJob | WaitingJob;

/** What a job may cost by what its caller asks for; its row keeps it as JSON. */
export interface Cost {
  /** The model that it asks for; null: it names none. */
  model: string | null;
  /**
   * The model that answers where the job names none, or only its pool; left out: the job names one, or no worker tells.
   */
  served?: string;
  /** Of prompt and answer, at most, as far as can be told before it runs. */
  tokens: number;
}

/** Whether it gives way to interactive work: lines of batches, and all else with a priority below 0. */
export function isBatchWork({ priority }: Pick<Job, 'priority'>): boolean {
  return priority < 0;
}

/** How its prompt begins; null: nothing is known of it. */
export function prefixOf({ prefix }: Pick<Job, 'prefix'>): Prefix | null {
  return typeof prefix === 'string' ? (JSON.parse(prefix) as Prefix) : prefix;
}

/**
 * A job whose caller waits over a connection. Of its states (protocol/jobs.ts) only `pending` and `leased` are seen:
 * a settled one is gone. It has one attempt: whether another is made is the gateway's to decide.
 */
export interface WaitingJob {
  readonly mode: 'waiting';
  id: string;
  /** What its caller calls the request; null: as the job. */
  request_id: string | null;
  job_type: string;
  route: string;
  /** Bytes lie outside the heap of V8, which strings would fill: it has a limit whatever the machine has. */
  payload: Uint8Array<ArrayBuffer>;
  /** The model that it waits for; null: any. */
  model: string | null;
  /** The pool that it is counted for; empty: no pool is known to serve the model. */
  config_id: string;
  tenant: string | null;
  token_name: string | null;
  /** The weight of that token: the larger it is, the less its tenant is charged for the job (docs/sharing.md). */
  weight: number;
  state: 'pending' | 'leased';
  priority: number;
  readonly attempts: 0;
  readonly max_attempts: 1;
  readonly attempt_errors: '[]';
  fence_token: number;
  worker_id: string | null;
  /** Times in epoch ms. */
  created_at: number;
  /** When its caller's request came: before `created_at` where the gateway asks again. */
  submitted_at: number;
  leased_at: number | null;
  deadline_at: number | null;
  /** When the queue ends it, pending or leased; its worker is not told this time. */
  limit_at: number | null;
  /** Null while its holder is connected: the connection is its lease. */
  lease_expires_at: number | null;
  /** When it is rejected while it waits: for want of a worker, and for want of a free slot. */
  worker_by: number;
  slot_by: number;
  /** Its caller set no limit to its waiting: it also waits as long as the start of a worker may take. */
  waits_for_start: boolean;
  /** Whether the limits of waiting jobs let it in. */
  is_admitted: boolean;
  /** The gateway asked for it before, or it was released: it is counted once. */
  is_repeat: boolean;
  /** Null: its token has no limits. */
  cost: Cost | null;
  /** The limit of its token that holds it back; null: it is let in, or there are no limits. */
  held: OverLimit | null;
  /** Epoch ms when they let it in. */
  let_in_at: number | null;
  /** How its prompt begins; null: nothing is known of it. */
  prefix: Prefix | null;
  /** How often a later job got the slot that it was next for (dispatch/warmth.ts). */
  passed_over: number;
  /** The key to its payload, where that goes by reference. */
  file_key: string | null;
  /** An earlier attempt that the gateway lost and a worker may still run: it ends when this one goes elsewhere. */
  older: { worker_id: string; fence_token: number } | null;
  /** What the gateway tells of earlier attempts; null: there were none. */
  earlier: EarlierAttempts | null;
  /** Workers at which attempts failed, or whose answer is moved (dispatch/retries.ts). */
  failed_at: readonly string[];
  /** Of an answer that was moved, epoch ms: when its first worker was given it, and its caller its first token. */
  begun: { given_at: number; first_token_at: number } | null;
  /** Tells the gateway; null once told, at dispatch where a relay carries the answer. */
  reply: ((answer: RequestAnswer) => void) | null;
}

/** What a dispatch records of an attempt. Times in epoch ms. */
export interface Lease {
  fence_token: number;
  worker_id: string;
  leased_at: number;
  lease_expires_at: number;
  /** The key to the files of this attempt; null: it has none. */
  file_key: string | null;
}

/** How an attempt that was released or failed leaves its job. */
export interface Release {
  attempts: number;
  /** JSON of every attempt's error */
  attempt_errors: string;
  /** Epoch ms before which it is not given out again; null: it is ready. */
  run_after: number | null;
  /** Of a stored job: JSON of the KeptPartial that the next attempt goes on from; null: it stays as it is. */
  kept: string | null;
}

/** Who ended a job or an attempt; unless it was the worker, the relay does not know yet. */
export type EndedBy = 'worker' | 'caller' | 'queue';

/** How a job ends. */
export type Ending = {
  /** The worker that had it at its end; null: none had it. */
  worker_id: string | null;
  attempts: number;
  /** JSON of every attempt's error */
  attempt_errors: string;
} & (
  | { state: 'succeeded'; result: Record<string, unknown> | null; error: null }
  | { state: 'failed' | 'cancelled' | 'expired'; result: null; error: Failure }
);

/**
 * The store of all jobs of one mode. It makes the transitions that its caller has decided on, and notifies all that
 * depends on them: the alarm, the counts of pending jobs, the next dispatch pass, the job's waiters.
 */
export interface JobStore<J extends Job> {
  /** `pending` → `leased`. @returns the job as it is now */
  lease(job: J, lease: Lease): J;
  /** `leased`, or `pending` without a new worker since → `leased`: its worker goes on. @param expiresAt epoch ms */
  extend(job: J, workerId: string, expiresAt: number): void;
  /** Its worker is gone: the lease waits for it. @param expiresAt epoch ms */
  orphan(job: J, expiresAt: number, by: (typeof ORPHANED)[keyof typeof ORPHANED]): void;
  /** `leased`, or `pending` → `pending`. */
  release(job: J, change: Release): void;
  /** Any state → settled; its waiters are answered. */
  end(job: J, ending: Ending): void;
  /** The key to the files of its newest attempt; null before the first. */
  fileKey(job: J): string | null;
}
