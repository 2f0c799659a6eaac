import type {
  AckOutcome,
  Failure,
  JobError,
  JobResult,
  JobResultRef,
  Load,
  PartialAnswer,
  ReleaseReason,
  RequestRecord,
  Timing,
  Usage,
} from '../../protocol/index.ts';
import type { Claim } from '../attempts/claim.ts';
import type { EndedBy, Ending, Job, WaitingJob } from '../job.ts';
import type { RefusalReason } from '../rpc.ts';
import type { Worker } from '../state/worker.ts';

/**
 * The events of a job, which are the steps of its ledger.
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
 * - `noted`              what a filter says of the request or its answer: a hook that failed, and which way that went
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
  | 'noted'
  | 'retried'
  | 'acknowledged_again'
  | 'refused_stale';

/** The worker's report on an attempt that ended. */
export interface Told {
  timing?: Timing | undefined;
  usage?: Usage | undefined;
  /** The partial answer that another attempt at a stored job goes on from. */
  partial?: PartialAnswer | undefined;
}

/** The contents of `detail` as data, for the counts. */
export interface Facts {
  /** The job's ending, for `settled`, `cancelled` and `expired`. */
  ending?: Ending;
  /** The party that ended the job, beside `ending`. */
  by?: EndedBy;
  /** For `attempt_failed` and `lease_expired`, why the attempt failed. */
  failure?: Failure;
  /** For `attempt_failed` and `lease_expired`, whether another attempt follows; else the job's end does. */
  isRepeated?: boolean;
  /** The tokens of prompt and answer that the next attempt, or the repeated request, has already. */
  kept?: number;
  /** For `submitted`, the earlier request that this one replaces; null if there is none. */
  replaced?: WaitingJob | null;
  /** The worker's own reason for `released`. */
  reason?: ReleaseReason;
  /** The reason for `refused`. */
  refusal?: RefusalReason;
  /** For `moved`, the time of the first token of the attempt that broke off, epoch ms; null if it gave none. */
  firstTokenAt?: number | null;
  /** For `dispatched`, whether the job was given to nobody before. */
  isFirst?: boolean;
  /** Prompt tokens that the worker had computed before: as the queue predicted, and as the engine reports. */
  cached?: { predicted: number; seen: number } | undefined;
}

/** All that may be said of an event; what is not said is undefined. */
type Said = { [Key in keyof Required<Told & Facts>]: (Told & Facts)[Key] };

export interface JobEvent extends Said {
  /** The job as it stood during the attempt that the event is about. */
  job: Job;
  step: JobStep;
  detail: string | null;
  /** The time of the event, epoch ms. */
  at: number;
}

/** An event that is not about a job that the queue has. */
export type OtherEvent =
  | { kind: 'registered'; worker: Worker }
  /** A worker reports how busy it is, and how far its attempts are. */
  | { kind: 'load'; worker: Worker; load: Load }
  /** A worker reports the end of an attempt that does not end its job. */
  | {
      kind: 'settled_aside';
      worker: Worker;
      /** The job as it is; null if the queue does not know it. */
      job: Job | null;
      claim: Claim;
      outcome: AckOutcome;
      frame: Settlement;
    }
  /** A submission was turned away, so that there is no job. */
  | { kind: 'turned_away'; config_id: string }
  /** A request failed or was released, and the gateway has not asked again in time: the request is over. */
  | {
      kind: 'decided';
      id: string;
      config_id: string;
      outcome: 'failed' | 'rejected' | 'cancelled';
      /** The request's record, complete except for its outcome. */
      record?: RequestRecord;
    };

/** A worker's last report on an attempt. */
export type Settlement = JobResult | JobResultRef | JobError;
