import * as z from 'zod';

/**
 * What the view of a fleet shows of machines that the scheduler launches; scaling.ts has the types. Times are epoch ms
 * of the server's clock; money is US dollars.
 */

const count = z.number().int().min(0);
const time = z.number();
const dollars = z.number().min(0);
const text = z.string();

/** One machine that the scheduler wants or has wanted. */
export const Launch = z.object({
  /** Ten lower-case letters and digits. */
  id: text,
  /** Its name at the provider, and the id of its worker. */
  name: text,
  config_id: text,
  /** Key of `providers` in the fleet's file. */
  provider: text,
  instance_type: text,
  /** scheduler/launch.ts says which step follows which. */
  state: z.enum([
    'intended',
    'requested',
    'accepted',
    'registered',
    'ready',
    'draining',
    'terminating',
    'gone',
    'failed',
  ]),
  /** When it reached that state. */
  state_at: time,
  /** The decision that made it, one sentence. */
  reason: text,
  /** The launch that this one replaces, since the settings of their pool were changed, or null. */
  replaces: text.nullable(),
  /** US dollars an hour. */
  price_per_hour: dollars,
  /** The provider's id; null: not told yet. */
  external_id: text.nullable(),
  /** When each step was reached; null: it was not, or not yet. */
  intended_at: time,
  requested_at: time.nullable(),
  accepted_at: time.nullable(),
  /** The container runs, by the provider's clock. */
  started_at: time.nullable(),
  registered_at: time.nullable(),
  ready_at: time.nullable(),
  draining_at: time.nullable(),
  terminating_at: time.nullable(),
  /** By the provider's clock where it told. */
  ended_at: time.nullable(),
  /** Of one that failed, or is being terminated because it failed. */
  cause: z.enum(['no_capacity', 'rejected', 'vanished', 'start_deadline', 'exited', 'lost']).nullable(),
  exit_code: z.number().int().nullable(),
  /** What the provider or the container said last. */
  detail: text.nullable(),
});

/** A launch as it is shown: those that may be alive, and the newest that have ended. */
export const LaunchRow = Launch.extend({
  /** US dollars so far, or in all, by the provider's own times. */
  cost: dollars,
  /** What its engine is doing before it is ready, by its heartbeats; null: nothing is heard of it. */
  loading: z.object({ phase: text.nullable(), progress: z.number().min(0).max(1).nullable() }).nullable(),
  /** When it is expected to be ready, by what earlier starts took; null: unknown, or it is, or will not be. */
  ready_expected_at: time.nullable(),
});

/** How the scheduler stands with one pool of the fleet's file. */
export const PoolScaling = z.object({
  /** Workers that the rule wants now; null: it has not decided yet. */
  wanted: count.nullable(),
  min: count,
  max: count,
  ready: count,
  /** Launched and not ready yet. */
  starting: count,
  /** Draining or being terminated. */
  draining: count,
  /** Jobs that wait. */
  waiting: count,
  /** Of all its machines that may be alive. */
  price_per_hour: dollars,
  /** Since midnight UTC. */
  spent_today: dollars,
  /** How many lines of batches wait before a worker is launched for them, and until when at most; null: none do. */
  batch_wait: z.object({ lines: count, until: time }).nullable(),
  /** The newest decision, in words. */
  decision: z.object({ at: time, text }).nullable(),
  /** The operator's control of it: `paused` holds what there is, `drained` ends it and launches none. */
  control: z.enum(['automatic', 'paused', 'drained']),
  /** Starts that failed hold back more of them until then; null: nothing does. `until` null: until an operator resumes it. */
  breaker: z.object({ text, until: time.nullable() }).nullable(),
  /** Why the pool's only worker keeps the settings from before a change until an operator makes room, or null. */
  exchange_stuck: text.nullable(),
});

/** How the scheduler stands with everything that it launches. */
export const ScalingSummary = z.object({
  /** Part of the name of every machine that it launches. */
  installation: text,
  /** When the fleet's file was applied. */
  applied_at: time,
  budget: z.object({ per_hour: dollars.nullable(), per_day: dollars.nullable() }),
  /** Of all machines that may be alive. */
  price_per_hour: dollars,
  /** Since midnight UTC. */
  spent_today: dollars,
  /** What the budget holds back, in words; null: nothing. */
  budget_reached: text.nullable(),
  providers: z.array(
    z.object({
      name: text,
      driver: text,
      /** When it was last listed completely; null: never. */
      listed_at: time.nullable(),
      /** Why the newest list failed; null: it did not. */
      error: text.nullable(),
    }),
  ),
  /** Heard of within the newest hour. */
  launchers: z.array(
    z.object({ launcher_id: text, drivers: z.array(text), host: text.nullable(), seen_at: time }),
  ),
});
