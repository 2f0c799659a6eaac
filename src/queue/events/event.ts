import type { PartialAnswer, ReleaseReason, Timing, Usage } from '../../protocol/index.ts';
import type { RefusalReason } from '../rpc.ts';
import type { Ending, Job } from '../state/job.ts';

/**
 * What can happen to a job. These are the steps of its ledger.
 *
 * - `submitted`, `dispatched` (to the worker named)
 * - `started`            its request went to the engine; of a base worker, its first progress
 * - `first_token`        where the engine streams the answer. These two are told by the settlement, afterwards
 * - `renewed_late`       a renewal came when less than half of what renewing in time leaves of a lease was left
 * - `disconnected`       the worker's socket closed, or the queue restarted; its lease lasts the reconnect grace
 * - `resumed`            the worker is back and goes on
 * - `released`           the worker released it: why; nothing charged
 * - `returned`           the queue took it back: why; nothing charged
 * - `attempt_failed`, `lease_expired`   charged: why, and when it is tried again
 * - `settled`            succeeded or failed
 * - `cancelled`, `expired`
 * - `refused`            a caller that waited got no worker: why
 * - `moved`, `not_moved` the rest of its answer is made by another worker, or not: why
 * - `retried`            failed or expired, and its caller asked for it to be tried again
 * - `acknowledged_again` the worker repeated its settlement
 * - `refused_stale`      a settlement of an older attempt, or of a job that is over: it changed nothing
 */
export type JobStep =
  | 'submitted'
  | 'dispatched'
  | 'started'
  | 'first_token'
  | 'renewed_late'
  | 'disconnected'
  | 'resumed'
  | 'released'
  | 'returned'
  | 'attempt_failed'
  | 'lease_expired'
  | 'settled'
  | 'cancelled'
  | 'expired'
  | 'refused'
  | 'moved'
  | 'not_moved'
  | 'retried'
  | 'acknowledged_again'
  | 'refused_stale';

/** What its worker told of an attempt when it ended. */
export interface Told {
  timing?: Timing | undefined;
  usage?: Usage | undefined;
  /** What another attempt at a stored job goes on from. */
  partial?: PartialAnswer | undefined;
}

/** What `detail` says in words, as data for the counts. */
export interface Facts {
  /** Of `settled`, `cancelled` and `expired`. */
  ending?: Ending;
  /** Of `released`: the worker's own reason. */
  reason?: ReleaseReason;
  /** Of `refused`. */
  refusal?: RefusalReason;
  /** Of `moved`: when the attempt that broke off gave its first token, epoch ms; null: it gave nothing. */
  firstTokenAt?: number | null;
  /** Of `dispatched`: the job was given to nobody before. */
  isFirst?: boolean;
}

export interface JobEvent extends Told, Facts {
  /** As it stood during the attempt that the event is about. */
  job: Job;
  step: JobStep;
  detail: string | null;
  /** Epoch ms */
  at: number;
}
