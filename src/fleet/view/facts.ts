import type { ConfigRates, ConfigScaling, ScalingSummary } from '../../protocol/index.ts';
import type { ConfigShare } from '../rpc.ts';

/** What the projection is made of, beside workers and launches. Times are epoch ms of the server's clock. */

export interface ConfigFacts {
  config_id: string;
  /** What the queue last told of it; null: nothing. */
  share: ConfigShare | null;
  /** How long a start usually takes, created to healthy, ms; null: none was seen. */
  expected_start_ms: number | null;
  now: ConfigRates;
  hour: ConfigRates;
  day: ConfigRates;
}

/** What the scheduler tells of itself, its configs by their ids. */
export interface Scaling {
  summary: ScalingSummary;
  configs: ReadonlyMap<string, ConfigScaling>;
}

/** What the gateway saw and no object keeps. */
export interface Incidents {
  /** The newest attempt of a worker to connect that was refused. */
  refusal: Refusal | null;
  /** Models that callers asked for and nobody serves, newest last. */
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
