import type { PoolRates, PoolScaling, ScalingSummary } from '../../protocol/index.ts';
import type { Met } from '../history/pool-history.ts';
import type { PoolShare } from '../rpc.ts';
import type { Objectives } from './objectives.ts';

/** What the projection is made of, beside workers and launches. Times are epoch ms of the server's clock. */

export interface PoolFacts {
  config_id: string;
  /** What the queue last told of it; null: nothing. */
  share: PoolShare | null;
  /** How long a start usually takes, created to healthy, ms; null: none was seen. */
  expected_start_ms: number | null;
  now: PoolRates;
  hour: PoolRates;
  day: PoolRates;
  met: { short: Met; long: Met };
  objectives: Objectives;
}

/** What the scheduler tells of itself, its pools by their ids. */
export interface Scaling {
  summary: ScalingSummary;
  pools: ReadonlyMap<string, PoolScaling>;
}

/** What the gateway saw and no object keeps. */
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
  /** Those that are known, as an error lists them; empty: none. */
  models: string;
}
