import type { PoolRates, PoolScaling, ScalingSummary } from '../../protocol/index.ts';
import type { Met } from '../history/pool-history.ts';
import type { PoolShare } from '../rpc.ts';
import type { Objectives } from './objectives.ts';

/**
 * The facts from which the projection is made, beside workers and launches. Times are epoch ms of the server's clock.
 */

export interface PoolFacts {
  config_id: string;
  /** The queue's newest report of the pool; null: there is none. */
  share: PoolShare | null;
  /** How long a start usually takes, from created to healthy, ms; null: none was seen. */
  expected_start_ms: number | null;
  now: PoolRates;
  hour: PoolRates;
  day: PoolRates;
  met: { short: Met; long: Met };
  objectives: Objectives;
}

/** What the scheduler reports of itself, and of its pools by their ids. */
export interface Scaling {
  summary: ScalingSummary;
  pools: ReadonlyMap<string, PoolScaling>;
}

/** Problems that the gateway saw and no object stores. */
export interface Incidents {
  /** The newest attempt of a worker to connect that was refused. */
  refusal: Refusal | null;
  /** Models that callers asked for and no worker serves, newest last. */
  unknown_models: readonly UnknownModel[];
}

export interface Refusal {
  at: number;
  /** A clause: "its token is not known here". */
  why: string;
  advice: string;
}

export interface UnknownModel {
  at: number;
  model: string;
  /** The known models, as an error lists them; empty: none. */
  models: string;
}
