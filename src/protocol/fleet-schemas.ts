import * as z from 'zod';
import { AdapterState } from './adapters.ts';
import { PROBLEM_KINDS } from './problem-kinds.ts';
import { LaunchRow, PoolScaling, ScalingSummary } from './scaling-schemas.ts';
import { Counted, GpuReading, Measured, StartTimes } from './telemetry.ts';
import { Waiting } from './waiting.ts';

/**
 * Schemas of what `/api/fleet` shows. fleet-view.ts has the types; only the gateway's OpenAPI document needs the
 * schemas at run time, so index.ts leaves them out.
 */

const count = z.number().int().min(0);
/** A time, epoch ms of the server's clock. */
const time = z.number();
const ms = z.number();
const share = z.number().min(0).max(1);
const text = z.string();

export const FleetSummary = z.object({
  /** The fleet's state; `empty`: no worker has ever reported. */
  verdict: z.enum(['serving', 'degraded', 'not_serving', 'empty']),
  /**
   * The state in one sentence: "3 of 4 pools fine; llama-8b: 12 jobs wait 40 s because its only worker loads, 62 %".
   */
  text,
  workers: count,
  ready_workers: count,
  slots: count,
  busy_slots: count,
  waiting: count,
  oldest_wait_ms: ms.nullable(),
  tokens_per_second: z.number().nullable(),
});

/** The acknowledgement of a problem by somebody who sees to it. */
export const Acknowledgement = z.object({
  /** The name of the token; null: none was required. */
  by: text.nullable(),
  at: time,
});

/** A problem that needs an operator, and its remedy. */
export const Attention = z.object({
  /** The problem's id, the same however long the problem lasts. */
  id: text,
  code: z.enum(PROBLEM_KINDS),
  /** The problem's urgency; `info` is a caller's own mistake, which is shown and not posted. */
  severity: z.enum(['error', 'warning', 'info']),
  config_id: text.nullable(),
  worker_id: text.nullable(),
  /** A sentence that names the cause. */
  text,
  /** The operator's next step. */
  advice: text,
  since: time,
  /** The acknowledgement of the problem; null: nobody sees to it. */
  acknowledged: Acknowledgement.nullable(),
  /** Until then nothing of it is posted, since somebody has muted it; null: it is not muted. */
  muted_until: time.nullable(),
});

type Nullable<Shape extends z.core.$ZodShape> = { [Name in keyof Shape]: z.ZodNullable<Shape[Name]> };

function nullable<Shape extends z.core.$ZodShape>(shape: Shape): Nullable<Shape> {
  const fields = Object.entries(shape).map(([name, field]) => [name, z.nullable(field)]);
  return Object.fromEntries(fields) as Nullable<Shape>;
}

export const WorkerRow = z.object({
  worker_id: text,
  config_id: text.nullable(),
  /**
   * The worker's state.
   *
   * - `starting`, `loading`: not registered yet, by its heartbeats
   * - `ready`: connected, runs nothing
   * - `running`: connected, runs jobs
   * - `paused`: connected, takes no jobs for now: its engine has a backlog
   * - `late`: one to three intervals without a heartbeat, and not connected
   * - `draining`: finishes what runs, and ends
   * - `error`: reports an error of its own
   * - `lost`: silent for more than three intervals
   * - `stopped`: said that it was stopping
   */
  state: z.enum([
    'starting',
    'loading',
    'ready',
    'running',
    'paused',
    'late',
    'draining',
    'error',
    'lost',
    'stopped',
  ]),
  state_since: time.nullable(),
  phase: text.nullable(),
  phase_since: time.nullable(),
  progress: share.nullable(),
  /** The time that a start of this pool usually takes, from created to healthy, by the pool's own history. */
  expected_start_ms: ms.nullable(),
  start: StartTimes,
  models: z.array(text),
  /** The worker's LoRA adapters; null: it loads none, or is not connected. */
  adapters: AdapterState.nullable(),
  slots: count.nullable(),
  running: count.nullable(),
  /** Measurements as in the newest heartbeat; null: unknown, or the worker is gone. */
  ...nullable(Measured.shape),
  /** Counts as in the newest heartbeat; null: unknown. */
  ...nullable(Counted.shape),
  /** Tokens per second over the newest 60 minutes, a value each minute, oldest first. */
  tokens_history: z.array(z.number().nullable()),
  gpus: z.array(GpuReading),
  heartbeat_at: time.nullable(),
  heartbeat_interval_ms: ms.nullable(),
  connected_at: time.nullable(),
  protocol: z.enum(['base', 'extended']).nullable(),
  engine: text.nullable(),
  engine_version: text.nullable(),
  worker_version: text.nullable(),
  /** The version of what the worker was started with (`CASOLA_VERSION`); null: it names none. */
  version: text.nullable(),
  host: text.nullable(),
  /** Whether the worker's machine is being taken away, or was when the worker last reported. */
  preempted: z.boolean(),
  error: z.object({ message: text, advice: text.nullable(), at: time }).nullable(),
  /** The last activity of a lost worker: "was running 3 jobs". */
  was_doing: text.nullable(),
  /** The end of the worker's last connection. */
  disconnected: z.object({ at: time, reason: text }).nullable(),
});

/** Percentiles of `n` values. */
const percentiles = z.object({ p50: ms, p95: ms, p99: ms, n: count }).nullable();
/** The counts and percentiles of a span of time. */
const rates = z.object({
  submitted: count,
  succeeded: count,
  failed: count,
  cancelled: count,
  expired: count,
  rejected: count,
  /** The part of `rejected` that found no worker or slot. */
  turned_away: count,
  tokens_in: count,
  tokens_out: count,
  /** The part of `tokens_in` that the engine had in its cache. */
  tokens_cached: count,
  /** The part of `tokens_in` that the queue expected in the cache when it chose the workers. */
  tokens_predicted: count,
  wait_ms: percentiles,
  first_token_ms: percentiles,
});

/** The number of ended jobs that missed an objective; `burn`: how many times the allowed rate, null: none ended. */
const missed = z.object({ missed: count, of: count, burn: z.number().min(0).nullable() });
/**
 * An objective, over the newest 5 minutes and the newest hour. `share`: the part of all that end that shall meet it.
 */
const objective = z.object({ share, short: missed, long: missed });

export const PoolRow = z.object({
  config_id: text,
  models: z.array(text),
  workers: count,
  ready_workers: count,
  slots: count,
  busy_slots: count,
  /** Jobs without a worker: those whose callers wait on a connection, and stored ones. */
  pending: z.object({ waiting: count, stored: count }),
  /** Jobs without a worker, by priority. */
  by_priority: z.array(z.object({ priority: z.number().int(), pending: count })),
  oldest_wait_ms: ms.nullable(),
  /** The longest wait of a caller on a connection. */
  oldest_caller_wait_ms: ms.nullable(),
  /** The reason why the pending jobs wait; null: none waits. */
  why_waiting: Waiting.nullable(),
  /** The rates over the newest minute. */
  now: rates,
  hour: rates,
  day: rates,
  objectives: z.object({
    /** Whether callers get their first token in time. */
    first_token: objective.extend({ within_ms: ms }),
    /** Whether jobs of every kind neither fail nor expire, nor are rejected for want of a worker or slot. */
    success: objective,
  }),
  /** The pool's scaling; null: the fleet's file does not name the pool. */
  scaling: PoolScaling.nullable(),
});

/**
 * The state of a fleet that the dashboard, `worker-vllm top`, `GET /api/fleet` and its live socket show. One projection
 * (fleet/view) makes all of it, so that a list and a detail never disagree. Times are epoch ms of the server's clock;
 * null is unknown, never zero.
 */
/** The requests for an alias that ended in the last ten minutes, by the model that each ended at. */
export const AliasRow = z.object({
  alias: text,
  /** The models of the alias in its order, also those that got no request. */
  models: z.array(
    z.object({
      model: text,
      /** Whether the model got copies, whose answers nobody read. */
      is_mirror: z.boolean(),
      requests: count,
      /** Its share of the alias's requests, without copies; null of copies, and where there were no requests. */
      share: share.nullable(),
      /** The requests that failed or found no room, through no mistake of their callers. */
      errors: count,
      /** The requests that came since the model before did not take them. */
      fell: count,
      /** The time from submission to the first token; null: no answer that was streamed succeeded. */
      first_token_p50_ms: ms.nullable(),
      first_token_p95_ms: ms.nullable(),
    }),
  ),
});

export const FleetView = z.object({
  /** The view's version, which grows with every change within one life of the fleet object (`epoch`). */
  version: count,
  /** The fleet object's random epoch, one for each start: versions of different epochs are not comparable. */
  epoch: text,
  /** The time when the view was made. */
  at: time,
  queue_id: text,
  summary: FleetSummary,
  /** The open problems, worst first. */
  attention: z.array(Attention),
  pools: z.array(PoolRow),
  workers: z.array(WorkerRow),
  /** Machines that the scheduler launched, newest first; empty where it launches none. */
  launches: z.array(LaunchRow),
  /** The scaling of all pools; null: no fleet's file was applied. */
  scaling: ScalingSummary.nullable(),
  /** The aliases of the fleet's file, and others that were asked for lately; older queues leave it out. */
  aliases: z.array(AliasRow).optional(),
});

/**
 * The frames that the server sends on `GET /api/fleet/live`, a WebSocket: at most one a second to a viewer. The first
 * is `full`; `changed` holds only rows that changed since `version - 1` of the viewer, each of them whole.
 */
export const FleetFrame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('full'), view: FleetView }),
  z.object({
    type: z.literal('changed'),
    version: count,
    at: time,
    summary: FleetSummary,
    attention: z.array(Attention),
    scaling: ScalingSummary.nullable(),
    aliases: z.array(AliasRow).optional(),
    pools: z.array(PoolRow),
    workers: z.array(WorkerRow),
    launches: z.array(LaunchRow),
    gone: z.object({ workers: z.array(text), pools: z.array(text), launches: z.array(text) }),
  }),
]);

/** The body of `GET /api/fleet/history`: columns of equal length. */
export const FleetHistory = z.object({
  /** The start of each step, epoch ms. */
  at: z.array(time),
  step_ms: ms,
  /** The columns by their names, as in `HISTORY_SERIES`. */
  series: z.record(z.string(), z.array(z.number().nullable())),
  /** Events of machines and workers in that time, oldest first: `started` is a worker that became ready. */
  marks: z.array(z.object({ at: time, kind: z.enum(['launched', 'started', 'ended', 'failed']), text })),
});
