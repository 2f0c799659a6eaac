import type { FleetFacts } from './facts.ts';
import type { FailureCause, Launch } from './launch.ts';
import type { CandidateSpec, PoolSpec } from './spec.ts';

/**
 * All that the rule knows when it decides. It holds no guesses: an unknown fact is null, and the rule shrinks, launches
 * and terminates nothing that it is not told about. Times are epoch ms by the queue's clock, money is US dollars.
 */
export interface Observed {
  /** From the spec. */
  budget: { per_hour?: number; per_day?: number };
  /** What all launches have cost since midnight UTC, by the providers' own times, those that still run included. */
  spent_today: number;
  /** Every pool of the spec, and those taken out of it that still have a launch alive (`removed`). */
  pools: ObservedPool[];
  /** Every provider of the spec. */
  providers: ObservedProvider[];
  /**
   * Every launch that is not final, and the newest final ones: a day's, at most 1,000. Breakers, back-off and start
   * times are read off them each time, so none of that is remembered anywhere else.
   */
  launches: Launch[];
  /**
   * By name, those of other starters too. That one is not connected is taken at its word only where `demand` is known. A start
   * whose worker's heartbeats show that it moves on is given more time.
   */
  workers: FleetFacts['workers'];
  /**
   * What the queue's answer to the newest cordon said: worker id → jobs it still runs. Workers that are not among them
   * may get jobs.
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
  /** By an operator: nothing is launched for it and nothing drained. What is under way ends as it began. */
  paused: boolean;
  /** It is no longer in the spec: what it has is drained and terminated. */
  removed: boolean;
  /** Until then an operator's own number counts as `min`, epoch ms; null: the file's does. */
  by_hand_until: number | null;
  /** When an operator last resumed it or changed its part of the spec: failures before then no longer count. */
  forgiven_at: number | null;
  /** Null: the queue's numbers are not known to be true now (it did not answer this time). All stays as it is. */
  demand: Demand | null;
}

/** Of one pool. A pool that the queue does not mention has zeros. */
export interface Demand {
  /** Jobs that wait for a worker: callers on a connection and stored jobs; not the lines of batches. */
  waiting: number;
  /** Jobs that workers hold, lines of batches included. */
  running: number;
  /** How many of these are lines of batches. */
  running_batch: number;
  /**
   * Jobs submitted since the queue was made, lines of batches left out (`totals.submitted` less what the batches object
   * has submitted). Arrivals over a minute and over five are differences of it.
   */
  submitted: number;
  /** Jobs that ran to their end since the queue was made (`totals.succeeded + totals.failed`), lines included. */
  ended: number;
  batches: BatchBacklog[];
}

/** Lines of one batch that have not begun to run, whether the queue has them already or not. */
export interface BatchBacklog {
  lines: number;
  /** End of its completion window. */
  ends_at: number;
}

/** Lines of batches that wait until more work pays for a start, or their last moment has come. */
export interface BatchWait {
  lines: number;
  /** When a worker is launched for them at the latest, epoch ms. */
  until: number;
}

export interface ObservedProvider {
  /** Key of `providers` in the spec. */
  name: string;
  /** Machines of all pools there at once; null: no limit. */
  max: number | null;
  /** A launcher made a complete list of it lately: younger than three times `list_every_ms`. */
  is_fresh: boolean;
  /** What it last told, by instance type. */
  prices: Record<string, number>;
  /** Its machines cost what it says; others cost what the spec says, or nothing. */
  tells_prices: boolean;
}

/** What to do, with why in words. Nothing is decided twice: what is under way shows in the launches. */
export type Decision =
  /** Write a row in the state `intended`. */
  | (Why & {
      kind: 'launch';
      config_id: string;
      machine: CandidateSpec;
      price_per_hour: number;
      replaces: string | null;
    })
  /** `ready → draining`, and cordon it. */
  | (Why & { kind: 'drain'; launch_id: string })
  /** `draining → ready`, and take it out of the cordon. */
  | (Why & { kind: 'take_back'; launch_id: string })
  /**
   * To `terminating` (an `intended` one to `gone`), with the cause noted where there is one. Its worker may have become
   * ready and been given a job since this was observed: it is cordoned too, and the order goes out only when the queue
   * has answered that it runs nothing.
   */
  | (Why & { kind: 'terminate'; launch_id: string; cause: FailureCause | null });

interface Why {
  /** One sentence. */
  reason: string;
  /** The numbers it follows from, in words, to be kept beside it. */
  inputs: string;
}

export interface Decided {
  decisions: Decision[];
  /** One for each pool observed, also where nothing is done. */
  pools: PoolDecided[];
  /** All launches that are not final together, after these decisions. */
  price_per_hour: number;
  /** The budget that prevents a launch; null: none does. */
  stopped_by_budget: 'hour' | 'day' | null;
  state: RuleState;
}

export interface PoolDecided {
  config_id: string;
  /** Workers wanted now; null: unknown, and nothing changes. */
  wanted: number | null;
  /** Workers that take jobs, those that the scheduler did not start too. */
  ready: number;
  /** Launches on their way to be ready. */
  starting: number;
  draining: number;
  waiting: number | null;
  batch_wait: BatchWait | null;
  price_per_hour: number;
  /** One sentence: what is done or why nothing is. */
  text: string;
  /** It is not launched any more until an operator resumes it or changes its spec; why, in one sentence. */
  breaker: string | null;
  /**
   * Why there is no room to replace the pool's only worker, which keeps the settings from before a change; null: there
   * is room, or no worker keeps such settings.
   */
  exchange_stuck: string | null;
  /** What was learnt of each of its machines, in the order in which they are tried. */
  machines: LearnedMachine[];
}

export interface LearnedMachine {
  provider: string;
  instance_type: string;
  price_per_hour: number;
  /** Seconds from the launch to ready; of how many starts. */
  start: { p50: number; p80: number; p90: number; count: number };
  /** Of one worker under load; null: not measured yet. */
  tokens_per_second: number | null;
  dollars_per_million_tokens: number | null;
  /** Epoch ms until which it is passed over; null: it is not. */
  skipped_until: number | null;
  /** Why. */
  skipped_because: string | null;
}

/**
 * What the rule remembers from one decision to the next: plain JSON. To be kept with the launches, but it may be
 * written late or lost: the rule then waits for a whole window before it shrinks anything, and is wrong in nothing.
 */
export interface RuleState {
  pools: Record<string, PoolMemory>;
  /** Tokens a second of a worker under load, by `pool/provider/instance_type`. */
  tokens_per_second: Record<string, number>;
}

export interface PoolMemory {
  /** When it was observed last, and since when without a gap. */
  at: number;
  since: number;
  /** `submitted` at each reconciliation, epoch ms first, oldest first, five minutes back. */
  submitted: [at: number, total: number][];
  /** Workers that arrivals needed within the scale-down window; only values larger than all later ones. */
  peaks: [at: number, workers: number][];
  /** Sums from which the time of a job in a slot is learnt; they fade over time. */
  busy_slot_ms: number;
  ended: number;
  /** `ended` and `running` at the last reconciliation. */
  last: { ended: number; running: number } | null;
  /** When it last had work for callers. */
  active_at: number;
  /** Worker id → since when it has run nothing. */
  idle_since: Record<string, number>;
  /** Name of a launch that is ready → since when its worker has not been connected. */
  away_since: Record<string, number>;
}
