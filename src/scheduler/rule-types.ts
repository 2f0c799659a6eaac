import type { FailureCause, Launch } from './launch.ts';
import type { Machine } from './machines.ts';
import type { CandidateSpec, PoolSpec, Update } from './spec.ts';

/**
 * All that the rule knows when it decides. It holds no guesses: an unknown fact is null, and the rule then shrinks,
 * launches and terminates nothing that depends on it. Times are epoch ms by the queue's clock, money is US dollars.
 */
export interface Observed {
  /** The spec's budget. */
  budget: { per_hour?: number; per_day?: number };
  /** The cost of all launches since midnight UTC, by the providers' own times, including launches that still run. */
  spent_today: number;
  /** Every pool of the spec, and former ones that still have a launch alive (`removed`). */
  pools: ObservedPool[];
  /** Every provider of the spec. */
  providers: ObservedProvider[];
  /**
   * Every launch that is not final, and the newest final ones: a day's, at most 1,000. The rule computes breakers,
   * back-off and start times from them each time, and stores none of that.
   */
  launches: Launch[];
  /**
   * Machines by name, including those that others started. A missing connection counts only if `demand` is known. A
   * start whose worker's heartbeats show progress gets more time.
   */
  machines: ReadonlyMap<string, Machine>;
  /**
   * The queue's answer to the newest cordon, by worker id: the number of jobs that the worker still runs. A worker that
   * is left out may get jobs.
   */
  cordoned: Record<string, number>;
  /**
   * The ids of launches that an operator drains, or that have another version than the wanted one: the rule never takes
   * their drain back.
   */
  dismissed: string[];
}

export interface ObservedPool {
  config_id: string;
  spec: Pick<
    PoolSpec,
    | 'slots'
    | 'min'
    | 'max'
    | 'keep_warm'
    | 'scale_down_after'
    | 'wanted_wait'
    | 'utilization'
    | 'batch_only'
    | 'spot'
    | 'machines'
  >;
  /** Whether an operator paused the pool: nothing is launched for it or drained, but what is under way continues. */
  paused: boolean;
  /** Whether the pool is no longer in the spec: its workers are drained and terminated. */
  removed: boolean;
  /** Until when an operator's own number replaces the file's `min`, epoch ms; null: the file's `min` applies. */
  by_hand_until: number | null;
  /** When an operator last resumed the pool or changed its part of the spec: failures before then do not count. */
  forgiven_at: number | null;
  /** The versions of its workers; null: the pool is no longer in the spec. */
  versions: ObservedVersions | null;
  /** The ids of launches that were drained lately to make room for their replacements. */
  replaced_first: string[];
  /** The pool's demand; null: the queue did not answer this time, and everything stays as it is. */
  demand: Demand | null;
}

export interface ObservedVersions {
  /** The version that every worker is to have. */
  wanted: string;
  /** When it became wanted, epoch ms. */
  since: number;
  /** Whether a worker of it has served well. */
  is_proved: boolean;
  /** The version that is launched while the wanted one is not proved, and gone back to if it fails; null: none is kept. */
  fallback: string | null;
  /** Whether an operator holds the rollout: no worker is replaced. */
  is_paused: boolean;
  update: Update;
  /** The recent work of the wanted version's workers, and of all others; null: nothing is known. */
  figures: WorkersFigures | null;
  others: WorkersFigures | null;
}

/** The demand for one pool. A pool that the queue does not mention has zeros. */
export interface Demand {
  /** The number of jobs that wait for a worker: callers on a connection and stored jobs, but not lines of batches. */
  waiting: number;
  /** The number of jobs that workers hold, lines of batches included. */
  running: number;
  /** The number of running jobs that are lines of batches. */
  running_batch: number;
  /**
   * The number of jobs submitted since the queue was made, without lines of batches (`totals.submitted` less what the
   * batches object has submitted). Arrivals over a minute and over five are differences of this number.
   */
  submitted: number;
  /**
   * The number of jobs that ran to their end since the queue was made (`totals.succeeded + totals.failed`), including
   * lines.
   */
  ended: number;
  batches: BatchBacklog[];
}

/** The lines of one batch that have not begun to run, whether or not the queue has them already. */
export interface BatchBacklog {
  lines: number;
  /** The end of the batch's completion window. */
  ends_at: number;
}

/** Lines of batches that wait until more work pays for a start, or until a start has to begin. */
export interface BatchWait {
  lines: number;
  /** When a worker is launched for the lines at the latest, epoch ms. */
  until: number;
}

export interface ObservedProvider {
  /** The provider's key in `providers` of the spec. */
  name: string;
  /** The most machines of all pools at the provider at once; null: no limit. */
  max: number | null;
  /** Whether a launcher made a complete list of the provider recently: less than three times `list_every_ms` ago. */
  is_fresh: boolean;
  /** The provider's newest prices, by instance type. */
  prices: Record<string, number>;
  /** Whether the provider sets the prices of its machines; otherwise they cost what the spec says, or nothing. */
  tells_prices: boolean;
}

/** One decision, with its reason in words. What is under way shows in the launches, so nothing is decided twice. */
export type Decision =
  /** Writes a row in the state `intended`. */
  | (Why & {
      kind: 'launch';
      config_id: string;
      /** Null: the version that is wanted when it is written. */
      version: string | null;
      machine: CandidateSpec;
      price_per_hour: number;
      replaces: string | null;
      /** Whether it is an on-demand machine because no spot machine is to be had. */
      is_stand_in: boolean;
    })
  /**
   * Moves the launch from `ready` to `draining`, and cordons its worker. `makes_room`: its replacement is launched once
   * it is gone.
   */
  | (Why & { kind: 'drain'; launch_id: string; makes_room?: true })
  /** Moves the launch from `draining` to `ready`, and takes its worker out of the cordon. */
  | (Why & { kind: 'take_back'; launch_id: string })
  /**
   * Moves the launch to `terminating` (an `intended` one to `gone`), and notes the cause if there is one. The worker
   * may have become ready and been given a job since it was observed: it is cordoned too, and the order goes out only
   * when the queue has answered that the worker runs nothing.
   */
  | (Why & { kind: 'terminate'; launch_id: string; cause: FailureCause | null })
  /** A finding about the wanted version of a pool. */
  | (Why & { config_id: string } & Finding);

type Finding =
  /** Notes that the version has served well: it is what missing workers are launched with. */
  | { kind: 'prove'; version: string }
  /** Launches the version no more, and wants another one again. */
  | { kind: 'stop'; version: string; back_to: string };

export type Judgement = Finding & { reason: string };

interface Why {
  /** The reason for the decision, one sentence. */
  reason: string;
  /** The numbers behind the reason, in words, stored beside it. */
  inputs: string;
}

export interface Decided {
  decisions: Decision[];
  /** One entry for each observed pool, even if nothing is done. */
  pools: PoolDecided[];
  /** The price of all launches that are not final, taken together, after these decisions. */
  price_per_hour: number;
  /** The budget that prevents a launch; null: none does. */
  stopped_by_budget: 'hour' | 'day' | null;
  state: RuleState;
}

export interface PoolDecided {
  config_id: string;
  /** The number of workers wanted now; null: it is unknown, and nothing changes. */
  wanted: number | null;
  /** The number of workers that take jobs, including those that the scheduler did not start. */
  ready: number;
  /** The number of launches that are not ready yet. */
  starting: number;
  draining: number;
  waiting: number | null;
  batch_wait: BatchWait | null;
  price_per_hour: number;
  /** A sentence that says what is done, or why nothing is. */
  text: string;
  /**
   * A sentence that says why the pool is launched no more until an operator resumes it or changes its spec; null: it is
   * launched.
   */
  breaker: string | null;
  /** The replacement of workers that have another version than the wanted one; null: none has. */
  rollout: RolloutDecided | null;
  /** The rule's knowledge of each of the pool's machines, in the order in which they are tried. */
  machines: LearnedMachine[];
}

export interface RolloutDecided {
  /** A sentence that says how far it is, and why it stands still if it does. */
  text: string;
  /** The worker that is replaced next; null: none is chosen. */
  next: string | null;
  /** Whether there is no room to replace the pool's only worker, so that it goes on only once an operator acts. */
  is_stuck: boolean;
}

export interface LearnedMachine {
  provider: string;
  instance_type: string;
  is_spot: boolean;
  price_per_hour: number;
  /** The share of the time that is lost to starts after preemptions; 0 of machines that are not spot machines. */
  lost_share: number;
  /** The time from launch to ready, s, and the number of starts that it is computed from. */
  start: { p50: number; p80: number; p90: number; count: number };
  /** The speed of one worker under load; null: it is not measured yet. */
  tokens_per_second: number | null;
  /** With what the lost share costs. */
  dollars_per_million_tokens: number | null;
  /** Until when the machine is skipped, epoch ms; null: it is not skipped. */
  skipped_until: number | null;
  /** The reason why the machine is skipped. */
  skipped_because: string | null;
}

/**
 * The rule's memory from one decision to the next: plain JSON, stored with the launches. It may be written late or
 * lost: the rule then waits for a whole window before it shrinks anything, and makes no wrong decision.
 */
export interface RuleState {
  pools: Record<string, PoolMemory>;
  /** Tokens a second of a worker under load, by `pool/provider/instance_type`. */
  tokens_per_second: Record<string, number>;
}

export interface PoolMemory {
  /** When the pool was last observed; `since` is when the observation without a gap began. */
  at: number;
  since: number;
  /** `submitted` at each reconciliation with its epoch ms, oldest first, over the last five minutes. */
  submitted: [at: number, total: number][];
  /** The workers that arrivals needed within the scale-down window; only values larger than all later ones. */
  peaks: [at: number, workers: number][];
  /** Busy slots over time. Divided by `ended`, this gives the time that a job occupies a slot. Both fade over time. */
  busy_slot_ms: number;
  ended: number;
  /** `ended` and `running` at the last reconciliation. */
  last: { ended: number; running: number } | null;
  /** When the pool last had work for callers. */
  active_at: number;
  /** When each idle worker began to run nothing, by worker id. */
  idle_since: Record<string, number>;
  /** When the worker of each ready launch was found disconnected, by the launch's name. */
  away_since: Record<string, number>;
  /** Since when there has been no room for a worker beside those that are to be replaced; null: there is. */
  no_room_since: number | null;
}

/** The queue's report of its jobs. */
export interface QueueFacts {
  /** Whether all of the queue's numbers are known: it has reported them since the object started, and still answers. */
  isKnown: boolean;
  /** Counts by pool id; a pool that the queue does not mention has no work. */
  pools: ReadonlyMap<string, PoolCounts>;
}

export interface PoolCounts {
  /** The number of waiting jobs, lines of batches included. */
  waiting: number;
  running: number;
  /** The number of lines of batches that wait at the queue: jobs that yield to all others. */
  waiting_in_background: number;
  submitted: number;
  submitted_in_background: number;
  ended: number;
}

/** The work of some workers together in the newest ten minutes; a figure is null where nothing is known. */
export interface WorkersFigures {
  /** The requests that they answered, and the attempts at which they failed. */
  requests: number;
  /** The failures among them that are the workers' or their engines' fault. */
  errors: number;
  /** The time from a request's slot to its first token, so that the wait for a slot does not count. */
  first_token_p50_ms: number | null;
  first_token_p95_ms: number | null;
  /** The speed of one answer while it came. */
  tokens_per_second: number | null;
}

/** The answers of other objects this time; null: the object did not answer, and no decision depends on its answer. */
export interface Answers {
  /** The number of jobs that each cordoned worker still holds. */
  cordoned: Record<string, number> | null;
  /** The lines of batches, by the pool that they are for; null: the batches object did not answer. */
  backlog: ReadonlyMap<string, BacklogFacts> | null;
}

export interface BacklogFacts {
  batches: { lines: number; ends_at: number }[];
  /** The number of lines that the queue has, waiting or running. */
  in_queue: number;
}
