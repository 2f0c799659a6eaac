/**
 * What the view of a fleet shows of machines that the scheduler launches, in the same manner as the rest of it
 * (fleet-view.ts). Times are epoch ms of the server's clock; money is US dollars.
 */

/** The steps of a launch; scheduler/launch.ts says which follows which. */
export type LaunchState =
  | 'intended'
  | 'requested'
  | 'accepted'
  | 'registered'
  | 'ready'
  | 'draining'
  | 'terminating'
  | 'gone'
  | 'failed';

export type FailureCause =
  /** The provider has none of that kind now. */
  | 'no_capacity'
  /** The provider refuses the request as it is, or there is no money. */
  | 'rejected'
  /** It never was in the provider's list, or is not any more. */
  | 'vanished'
  /** It did not register or become ready within its start deadline. */
  | 'start_deadline'
  /** The container ended by itself; `exit_code` says whose fault it was. */
  | 'exited'
  /** It was ready, and was lost. */
  | 'lost';

/** A machine that was launched: those that may be alive, and the newest that have ended. */
export interface LaunchRow {
  launch_id: string;
  /** Its name at the provider, and the id of its worker. */
  name: string;
  config_id: string;
  /** Key of `providers` in the fleet's file. */
  provider: string;
  kind: string;
  state: LaunchState;
  state_since: number;
  /** The decision that made it, one sentence. */
  reason: string;
  price_per_hour: number;
  /** So far, or in all, by the provider's own times. */
  cost: number;
  /** The provider's id; null: not told yet. */
  external_id: string | null;
  /** When each step was reached; null: it was not, or not yet. */
  intended_at: number;
  requested_at: number | null;
  accepted_at: number | null;
  /** The container runs, by the provider's clock. */
  started_at: number | null;
  registered_at: number | null;
  ready_at: number | null;
  draining_at: number | null;
  terminating_at: number | null;
  /** By the provider's clock where it told. */
  ended_at: number | null;
  /** What its engine is doing before it is ready, by its heartbeats; null: nothing is heard of it. */
  loading: { phase: string | null; progress: number | null } | null;
  /** When it is expected to be ready, by what earlier starts took; null: unknown, or it is, or will not be. */
  ready_expected_at: number | null;
  cause: FailureCause | null;
  exit_code: number | null;
  /** What the provider or the container said last. */
  detail: string | null;
}

/** What an operator has said of a config: `paused` holds what there is, `drained` ends it and launches none. */
export type ScalingControl = 'automatic' | 'paused' | 'drained';

/** How the scheduler stands with one config of the fleet's file. */
export interface ConfigScaling {
  /** Workers that the rule wants now; null: it has not decided yet. */
  wanted: number | null;
  min: number;
  max: number;
  ready: number;
  /** Launched and not ready yet. */
  starting: number;
  /** Draining or being terminated. */
  draining: number;
  /** Jobs that wait. */
  waiting: number;
  /** Of all its machines that may be alive. */
  price_per_hour: number;
  /** Since midnight UTC. */
  spent_today: number;
  /** The newest decision, in words. */
  decision: { at: number; text: string } | null;
  control: ScalingControl;
  /** Starts that failed hold back more of them until then; null: nothing does. `until` null: until somebody resumes it. */
  breaker: { text: string; until: number | null } | null;
}

/** How the scheduler stands with everything that it launches. */
export interface ScalingSummary {
  /** Part of the name of every machine that it launches. */
  installation: string;
  /** When the fleet's file was applied. */
  applied_at: number;
  budget: { per_hour: number | null; per_day: number | null };
  /** Of all machines that may be alive. */
  price_per_hour: number;
  /** Since midnight UTC. */
  spent_today: number;
  /** What the budget holds back, in words; null: nothing. */
  budget_reached: string | null;
  providers: ScalingProvider[];
  /** Heard of within the newest hour. */
  launchers: ScalingLauncher[];
}

export interface ScalingProvider {
  name: string;
  driver: string;
  /** When it was last listed completely; null: never. */
  listed_at: number | null;
  /** Why the newest list failed; null: it did not. */
  error: string | null;
}

export interface ScalingLauncher {
  launcher_id: string;
  drivers: string[];
  host: string | null;
  seen_at: number;
}
