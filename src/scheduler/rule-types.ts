import type { FailureCause, Launch } from './launch.ts';
import type { Machine } from './machines.ts';
import type { CandidateSpec, PoolSpec } from './spec.ts';

/**
 * All that the rule knows when it decides. It holds no guesses: an unknown fact is null, and where a fact is unknown
 * the rule shrinks, launches and terminates nothing. Times are epoch ms by the queue's clock, money is US dollars.
 */
export interface Observed {
  /** The spec's budget. */
  budget: { per_hour?: number; per_day?: number };
  /** The cost of all launches since midnight UTC, by the providers' own times, those that still run included. */
  spent_today: number;
  /** Every pool of the spec, and those taken out of it that still have a launch alive (`removed`). */
  pools: ObservedPool[];
  /** Every provider of the spec. */
  providers: ObservedProvider[];
  /**
   * Every launch that is not final, and the newest final ones: a day's, at most 1,000. The rule computes breakers,
   * back-off and start times from them each time, so none of that is stored elsewhere.
   */
  launches: Launch[];
  /**
   * Machines by name, those that others started too. That a worker is not connected counts only where `demand` is
   * known. A start whose worker's heartbeats show that it advances gets more time.
   */
  machines: ReadonlyMap<string, Machine>;
  /**
   * The queue's answer to the newest cordon: worker id → jobs it still runs. Workers that are not among them may get
   * jobs.
   */
  cordoned: Record<string, number>;
  /** Launches that an operator drains, and those of older settings, by id: the rule never takes their drain back. */
  dismissed: string[];
  /** Launches whose pool is started with other settings now, by id: they serve until others do. */
  outdated: string[];
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
    | 'machines'
  >;
  /** Whether an operator paused the pool: nothing is launched for it and nothing drained. What is under way goes on. */
  paused: boolean;
  /** Whether the pool is no longer in the spec: what it has is drained and terminated. */
  removed: boolean;
  /** Until when an operator's own number counts as `min`, epoch ms; null where the file's counts. */
  by_hand_until: number | null;
  /** When an operator last resumed the pool or changed its part of the spec: failures before then no longer count. */
  forgiven_at: number | null;
  /** The pool's demand; null where the queue did not answer this time. Everything then stays as it is. */
  demand: Demand | null;
}

/** The demand of one pool. A pool that the queue does not mention has zeros. */
export interface Demand {
  /** The number of jobs that wait for a worker: callers on a connection and stored jobs, but not lines of batches. */
  waiting: number;
  /** The number of jobs that workers hold, lines of batches included. */
  running: number;
  /** The number of running jobs that are lines of batches. */
  running_batch: number;
  /**
   * The number of jobs submitted since the queue was made, lines of batches left out (`totals.submitted` less what the
   * batches object has submitted). Arrivals over a minute and over five are differences of it.
   */
  submitted: number;
  /**
   * The number of jobs that ran to their end since the queue was made (`totals.succeeded + totals.failed`), lines
   * included.
   */
  ended: number;
  batches: BatchBacklog[];
}

/** The lines of one batch that have not begun to run, whether the queue has them already or not. */
export interface BatchBacklog {
  lines: number;
  /** The end of the batch's completion window. */
  ends_at: number;
}

/** Lines of batches that wait until more work pays for a start, or until the latest moment at which one must begin. */
export interface BatchWait {
  lines: number;
  /** When a worker is launched for the lines at the latest, epoch ms. */
  until: number;
}

export interface ObservedProvider {
  /** The provider's key in `providers` of the spec. */
  name: string;
  /** The most machines of all pools there at once; null for no limit. */
  max: number | null;
  /**
   * Whether a launcher made a complete list of the provider recently: it is younger than three times `list_every_ms`.
   */
  is_fresh: boolean;
  /** The provider's newest prices, by instance type. */
  prices: Record<string, number>;
  /** Whether the provider sets the prices of its machines; otherwise they cost what the spec says, or nothing. */
  tells_prices: boolean;
}

/** One decision, with its reason in words. Nothing is decided twice: what is under way shows in the launches. */
export type Decision =
  /** Writes a row in the state `intended`. */
  | (Why & {
      kind: 'launch';
      config_id: string;
      machine: CandidateSpec;
      price_per_hour: number;
      replaces: string | null;
    })
  /** Moves the launch from `ready` to `draining`, and cordons its worker. */
  | (Why & { kind: 'drain'; launch_id: string })
  /** Moves the launch from `draining` to `ready`, and takes its worker out of the cordon. */
  | (Why & { kind: 'take_back'; launch_id: string })
  /**
   * Moves the launch to `terminating` (an `intended` one to `gone`), and notes the cause where there is one. The
   * worker may have become ready and been given a job since it was observed: it is cordoned too, and the order goes
   * out only when the queue has answered that the worker runs nothing.
   */
  | (Why & { kind: 'terminate'; launch_id: string; cause: FailureCause | null });

interface Why {
  /** The reason for the decision, one sentence. */
  reason: string;
  /** The numbers that the reason follows from, in words, stored beside it. */
  inputs: string;
}

export interface Decided {
  decisions: Decision[];
  /** One entry for each observed pool, also where nothing is done. */
  pools: PoolDecided[];
  /** The price of all launches that are not final together, after these decisions. */
  price_per_hour: number;
  /** The budget that prevents a launch; null where none does. */
  stopped_by_budget: 'hour' | 'day' | null;
  state: RuleState;
}

export interface PoolDecided {
  config_id: string;
  /** The number of workers wanted now; null where it is unknown, and then nothing changes. */
  wanted: number | null;
  /** The number of workers that take jobs, those that the scheduler did not start too. */
  ready: number;
  /** The number of launches that are not ready yet. */
  starting: number;
  draining: number;
  waiting: number | null;
  batch_wait: BatchWait | null;
  price_per_hour: number;
  /** One sentence: what is done, or why nothing is. */
  text: string;
  /**
   * Why the pool is not launched any more until an operator resumes it or changes its spec, one sentence; null where
   * it is.
   */
  breaker: string | null;
  /**
   * Why there is no room to replace the pool's only worker, which keeps the settings from before a change; null where
   * there is room, or where no worker keeps such settings.
   */
  exchange_stuck: string | null;
  /** What the rule learnt of each of the pool's machines, in the order in which they are tried. */
  machines: LearnedMachine[];
}

export interface LearnedMachine {
  provider: string;
  instance_type: string;
  price_per_hour: number;
  /** The time from the launch to ready, s, and the number of starts that it is computed from. */
  start: { p50: number; p80: number; p90: number; count: number };
  /** The speed of one worker under load; null where it is not measured yet. */
  tokens_per_second: number | null;
  dollars_per_million_tokens: number | null;
  /** Until when the machine is skipped, epoch ms; null where it is not. */
  skipped_until: number | null;
  /** Why the machine is skipped. */
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
  /** When the pool was observed last; `since` is since when without a gap. */
  at: number;
  since: number;
  /** `submitted` at each reconciliation with its epoch ms, oldest first, five minutes back. */
  submitted: [at: number, total: number][];
  /** The workers that arrivals needed within the scale-down window; only values larger than all later ones. */
  peaks: [at: number, workers: number][];
  /**
   * Busy slots over time; with `ended`, the sum from which the time of a job in a slot is learnt. Both fade over time.
   */
  busy_slot_ms: number;
  ended: number;
  /** `ended` and `running` at the last reconciliation. */
  last: { ended: number; running: number } | null;
  /** When the pool last had work for callers. */
  active_at: number;
  /** Worker id → since when it has run nothing. */
  idle_since: Record<string, number>;
  /** Name of a launch that is ready → since when its worker has not been connected. */
  away_since: Record<string, number>;
}

/** What the queue has reported of its jobs. */
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
  /** The number of lines of batches that wait at the queue: jobs that give way to all others. */
  waiting_in_background: number;
  submitted: number;
  submitted_in_background: number;
  ended: number;
}

/** The answers of other objects this time; null where one did not answer, and then no decision depends on it. */
export interface Answers {
  /** The number of jobs that each cordoned worker still holds. */
  cordoned: Record<string, number> | null;
  /** Lines of batches, by the pool that they are for. */
  backlog: ReadonlyMap<string, BacklogFacts> | null;
}

export interface BacklogFacts {
  batches: { lines: number; ends_at: number }[];
  /** The number of lines that the queue has, waiting or running. */
  in_queue: number;
}
