import * as z from 'zod';

/**
 * Schemas of what the view of a fleet shows of machines that the scheduler launches; scaling.ts has the types. Times
 * are epoch ms of the server's clock; money is US dollars.
 */

const count = z.number().int().min(0);
const time = z.number();
const dollars = z.number().min(0);
const text = z.string();

/** A machine that the scheduler wants or has wanted. */
export const Launch = z.object({
  /** The launch's id: ten lower-case letters and digits. */
  id: text,
  /** The machine's name at the provider, and the id of its worker. */
  name: text,
  config_id: text,
  /** The provider's key in `providers` of the fleet's file. */
  provider: text,
  instance_type: text,
  /** The launch's state; scheduler/launch.ts says which follows which. */
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
  /** The time when the launch reached its state. */
  state_at: time,
  /** The scheduler's reason for the launch, one sentence. */
  reason: text,
  /** The version of what its worker is started with; null: it is from before launches had versions. */
  version: text.nullable(),
  /** The launch that this one replaces because it has another version than the pool is to have, or null. */
  replaces: text.nullable(),
  /** Whether the machine is a spot machine, which its provider may take back at any time. */
  is_spot: z.boolean(),
  /** Whether the machine is on-demand only because no spot machine was to be had. */
  is_stand_in: z.boolean(),
  /** US dollars an hour. */
  price_per_hour: dollars,
  /** The provider's id of the machine; null: not reported yet. */
  external_id: text.nullable(),
  /** The times when the launch reached each step; null: it did not, or not yet. */
  intended_at: time,
  requested_at: time.nullable(),
  accepted_at: time.nullable(),
  /** The time when the container started, by the provider's clock. */
  started_at: time.nullable(),
  registered_at: time.nullable(),
  ready_at: time.nullable(),
  draining_at: time.nullable(),
  terminating_at: time.nullable(),
  /** The time when the machine ended, by the provider's clock where it reported that. */
  ended_at: time.nullable(),
  /** The reason why the launch failed; also set while the machine is being terminated because it failed. */
  cause: z
    .enum(['no_capacity', 'rejected', 'vanished', 'start_deadline', 'exited', 'lost', 'preempted'])
    .nullable(),
  exit_code: z.number().int().nullable(),
  /** The last words of the provider or the container. */
  detail: text.nullable(),
});

/** A launch as the view shows it: those that may be alive, and the newest that have ended. */
export const LaunchRow = Launch.extend({
  /** US dollars so far, or in all, by the provider's own times. */
  cost: dollars,
  /** The engine's phase and progress before it is ready, by the worker's heartbeats; null: none came. */
  loading: z.object({ phase: text.nullable(), progress: z.number().min(0).max(1).nullable() }).nullable(),
  /**
   * The time when the worker is expected to be ready, by what earlier starts took; null: unknown, or it is ready
   * already, or will not be.
   */
  ready_expected_at: time.nullable(),
});

/** The workers that the scheduler wants and has of one pool of the fleet's file. */
export const PoolScaling = z.object({
  /** The number of workers that the scheduler's rule wants now; null: it has not decided yet. */
  wanted: count.nullable(),
  min: count,
  max: count,
  /** The workers that take jobs: `ready_workers` of the pool. */
  ready: count,
  /** The machines that are launched and not ready yet. */
  starting: count,
  /** The machines that are draining or being terminated. */
  draining: count,
  /** The number of jobs that wait. */
  waiting: count,
  /** US dollars an hour of all the pool's machines that may be alive. */
  price_per_hour: dollars,
  /** US dollars spent on the pool since midnight UTC. */
  spent_today: dollars,
  /** The lines of batches that wait for a launch of a worker, and until when at most; null: none do. */
  batch_wait: z.object({ lines: count, until: time }).nullable(),
  /** The newest decision, in words. */
  decision: z.object({ at: time, text }).nullable(),
  /** The operator's control of the pool: `paused` holds what there is, `drained` ends it and launches none. */
  control: z.enum(['automatic', 'paused', 'drained']),
  /**
   * The reason why failed starts hold back more of them, and until when; null: nothing does. `until` null: until an
   * operator resumes the pool.
   */
  breaker: z.object({ text, until: time.nullable() }).nullable(),
  /** The figures of the pool's spot machines of the newest seven days; null: there were none. */
  spot: z
    .object({
      /** The machines that their providers took back. */
      lost: count,
      /** The requests that ran on these, and that went on elsewhere from the last token, or were begun anew. */
      moved: count,
      repeated: count,
      /** US dollars that on-demand machines would have cost more; null: the pool has none to compare with. */
      saved: z.number().nullable(),
    })
    .nullable(),
  /**
   * The replacement of workers by those of another version; null: every worker has the version that the file says, and
   * a change would be rolled out.
   */
  rollout: z
    .object({
      /**
       * `paused`: an operator holds the pool's rollouts, whether or not one is under way. `stopped`: the version `to`
       * was given up, and the pool keeps `from`, or goes back to it, until the file or an operator says another.
       */
      state: z.enum(['rolling', 'paused', 'stopped']),
      /** The version that the pool had before, or keeps; null: it is not known. */
      from: text.nullable(),
      to: text,
      /** When it began, or was paused or stopped. */
      since: time,
      /** How far it is, and why it stands still where it does. */
      text,
      /** The worker that is replaced next; null: none is chosen. */
      next: text.nullable(),
      /** Whether it goes on only once an operator makes room. */
      is_stuck: z.boolean(),
    })
    .nullable(),
  /** The versions that workers of the pool have or that are kept to go back to, the newest first. */
  versions: z.array(
    z.object({
      version: text,
      /** `kept`: no worker has it, and it can be launched again. */
      state: z.enum(['wanted', 'old', 'stopped', 'kept']),
      /** A text of the settings in which it differs from the version before. */
      what: text,
      /** The time when it was last made the wanted one. */
      since: time,
      /** Whether a worker of it has served well. */
      is_proved: z.boolean(),
      ready: count,
      starting: count,
      draining: count,
      /** The figures of the newest ten minutes; null: nothing is known. */
      requests: count.nullable(),
      /** Its part of the pool's requests. */
      share: z.number().min(0).max(1).nullable(),
      /** The failures among its requests that are its workers' fault. */
      errors: count.nullable(),
      first_token_p50_ms: z.number().min(0).nullable(),
      first_token_p95_ms: z.number().min(0).nullable(),
      tokens_per_second: z.number().min(0).nullable(),
      stopped_because: text.nullable(),
    }),
  ),
});

/** The machines that the scheduler has launched in all, and their limits. */
export const ScalingSummary = z.object({
  /** The installation's name, part of the name of every machine that the scheduler launches. */
  installation: text,
  /** The time when the fleet's file was applied. */
  applied_at: time,
  budget: z.object({ per_hour: dollars.nullable(), per_day: dollars.nullable() }),
  /** US dollars an hour of all machines that may be alive. */
  price_per_hour: dollars,
  /** US dollars spent since midnight UTC. */
  spent_today: dollars,
  /** The launches that the budget holds back, in words; null: none. */
  budget_reached: text.nullable(),
  providers: z.array(
    z.object({
      name: text,
      driver: text,
      /** The time when a launcher last listed all machines of the provider; null: never. */
      listed_at: time.nullable(),
      /** The reason why the newest list failed; null: it did not. */
      error: text.nullable(),
    }),
  ),
  /** The launchers that reported within the newest hour. */
  launchers: z.array(
    z.object({ launcher_id: text, drivers: z.array(text), host: text.nullable(), seen_at: time }),
  ),
});
