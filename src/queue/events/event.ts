import type { PartialAnswer, ReleaseReason, Timing, Usage } from '../../protocol/index.ts';
import type { RefusalReason } from '../rpc.ts';
import type { Ending, Job } from '../state/job.ts';

/**
 * What can happen to a job. These are the steps of its ledger.
 *
 * - `submitted`, `dispatched` (to the worker named)
 * - `started`            the job's request went to the engine; a base worker's first progress
 * - `first_token`        the engine streamed its first token; the settlement reports this and `started`, afterwards
 * - `renewed_late`       a renewal came when less than half of what renewing in time leaves of a lease was left
 * - `disconnected`       the worker's socket closed, or the queue restarted; its lease lasts the reconnect grace
 * - `resumed`            the worker is back and goes on
 * - `released`           the worker gave the job back, and why; nothing is charged
 * - `returned`           the queue took the job back, and why; nothing is charged
 * - `attempt_failed`, `lease_expired`   the attempt is charged: why, and when the job is tried again
 * - `settled`            the job succeeded or failed
 * - `cancelled`, `expired`
 * - `refused`            a caller that waited got no worker, and why
 * - `moved`, `not_moved` another worker makes the rest of the answer, or not, and why
 * - `retried`            the job had failed or expired, and its caller asked for another try
 * - `acknowledged_again` the worker repeated its settlement
 * - `refused_stale`      a settlement of an older attempt, or of a job that is over, changed nothing
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

/** What the worker reported of an attempt when it ended. */
export interface Told {
  timing?: Timing | undefined;
  usage?: Usage | undefined;
  /** The partial answer that another attempt at a stored job goes on from. */
  partial?: PartialAnswer | undefined;
}

/** What `detail` says in words, as data for the counts. */
export interface Facts {
  /** How the job ended, for `settled`, `cancelled` and `expired`. */
  ending?: Ending;
  /** The worker's own reason for `released`. */
  reason?: ReleaseReason;
  /** The reason for `refused`. */
  refusal?: RefusalReason;
  /** For `moved`, when the attempt that broke off gave its first token, epoch ms; null if it gave none. */
  firstTokenAt?: number | null;
  /** For `dispatched`, whether the job was given to nobody before. */
  isFirst?: boolean;
}

export interface JobEvent extends Told, Facts {
  /** The job as it stood during the attempt that the event is about. */
  job: Job;
  step: JobStep;
  detail: string | null;
  /** When the event happened, epoch ms. */
  at: number;
}
