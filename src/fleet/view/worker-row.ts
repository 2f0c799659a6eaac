import {
  Counted,
  type GpuReading,
  type Heartbeat,
  Measured,
  type WorkerRow,
  type WorkerState,
} from '../../protocol/index.ts';
import { isPreempted } from '../../scheduler/machines.ts';
import type { Machine } from '../rpc.ts';
import { counted, firstLine, percent, span } from './words.ts';

/** The heartbeat interval of workers that do not report it, as in the base protocol. */
const USUAL_INTERVAL_MS = 60_000;
/** A heartbeat is late after this many intervals: one, and a tolerance for the network. */
export const LATE_INTERVALS = 1.25;
const LOST_INTERVALS = 3;
/** A worker that reported a failure and has been silent since is in error for this long, ms; then it is lost. */
const ERROR_STANDS_MS = 3_600_000;

export interface StateNow {
  state: WorkerState;
  /** The time when the state began, epoch ms; null: unknown. */
  since: number | null;
  /** The moment from which time alone may change the state, epoch ms; infinite: never. */
  until: number;
}

const FOREVER = Number.POSITIVE_INFINITY;

export function intervalMs(beat: Heartbeat | null): number {
  return beat?.interval_seconds === undefined ? USUAL_INTERVAL_MS : beat.interval_seconds * 1000;
}

/**
 * Returns the state of a worker: by its connection if it has one, else by its heartbeats and their age.
 * @param isOver whether the scheduler launched the worker's machine and knows that it is gone
 */
export function stateOf(machine: Machine, isOver: boolean, now: number): StateNow {
  const { session, heartbeat, heartbeat_at } = machine;
  if (!session) return unconnected(machine, isOver, now);
  // A heartbeat from before the worker connected is from an earlier process.
  const isNews = heartbeat_at !== null && heartbeat_at >= session.connected_at;
  if (isNews && saysError(heartbeat)) return { state: 'error', since: heartbeat_at, until: FOREVER };
  const state = session.state === 'ready' && session.running > 0 ? 'running' : session.state;
  return { state, since: null, until: FOREVER };
}

function unconnected(machine: Machine, isOver: boolean, now: number): StateNow {
  const { heartbeat, heartbeat_at, disconnected } = machine;
  const heardAt = machine.heard_at ?? 0;
  // A launch that failed is reported with the pool's starts, until one succeeds.
  const hasEnded = heartbeat?.status === 'stopping' || (isOver && saysError(heartbeat));
  if (hasEnded) return { state: 'stopped', since: heartbeat_at, until: FOREVER };
  const interval = intervalMs(heartbeat);
  const lostAt = heardAt + LOST_INTERVALS * interval;
  const stoodUntil = Math.max(lostAt, (heartbeat_at ?? heardAt) + ERROR_STANDS_MS);
  if (saysError(heartbeat) && now <= stoodUntil) {
    return { state: 'error', since: heartbeat_at, until: stoodUntil + 1 };
  }
  if (now > lostAt) return { state: 'lost', since: lostAt, until: FOREVER };
  // A process that is starting again is not late because the process before it is gone.
  const startsAgain = heartbeat?.status === 'starting' && (heartbeat_at ?? 0) > (disconnected?.at ?? 0);
  const endedAt = startsAgain ? undefined : disconnected?.at;
  const lateAt = endedAt ?? heardAt + LATE_INTERVALS * interval;
  if (now >= lateAt) return { state: 'late', since: lateAt, until: lostAt + 1 };
  const isLoading = heartbeat?.phase !== undefined && heartbeat.phase !== 'ready';
  const since = (isLoading ? heartbeat.start?.engine_started_ms : heartbeat?.start?.created_ms) ?? null;
  return { state: isLoading ? 'loading' : 'starting', since, until: lateAt };
}

function saysError(beat: Heartbeat | null): boolean {
  return beat?.status === 'error' || beat?.status === 'failed' || beat?.status === 'fatal';
}

const MEASURED = Object.keys(Measured.shape) as (keyof typeof Measured.shape)[];
const COUNTED = Object.keys(Counted.shape) as (keyof typeof Counted.shape)[];

/**
 * Makes the row of a worker in the view. The last measurements of a worker that is gone are left out, since they are no
 * longer current.
 */
export function workerRow(
  machine: Machine,
  { state, since }: StateNow,
  expectedStartMs: number | null,
  tokensHistory: (number | null)[],
): WorkerRow {
  const { session, heartbeat: beat, instance } = machine;
  const isGone = state === 'lost' || state === 'stopped';
  const live = isGone ? null : beat;
  const gpus = beat?.gpus ?? (instance?.gpu === undefined ? [] : [{ name: instance.gpu }]);
  const isStarting = state === 'starting' || state === 'loading' || state === 'late';
  return {
    worker_id: machine.worker_id,
    config_id: session?.config_id ?? machine.config_id,
    state,
    state_since: since,
    phase: live?.phase ?? null,
    phase_since: live?.phase_since_ms ?? null,
    progress: isStarting ? (live?.progress ?? null) : null,
    expected_start_ms: expectedStartMs,
    start: beat?.start ?? {},
    models: session?.models ?? instance?.models ?? (beat?.model === undefined ? [] : [beat.model]),
    adapters: session?.adapters ?? null,
    slots: session?.capacity ?? beat?.capacity ?? null,
    running: isGone ? null : (session?.running ?? beat?.running ?? null),
    ...reported(MEASURED, live),
    ...reported(COUNTED, beat),
    tokens_history: tokensHistory,
    gpus: isGone ? gpus.map(withoutReadings) : gpus,
    heartbeat_at: machine.heartbeat_at,
    heartbeat_interval_ms: beat ? intervalMs(beat) : null,
    connected_at: session?.connected_at ?? null,
    protocol: session?.protocol ?? null,
    engine: beat?.engine ?? instance?.engine ?? null,
    engine_version: beat?.engine_version ?? instance?.engine_version ?? null,
    worker_version: beat?.worker_version ?? instance?.worker_version ?? null,
    version: instance?.version ?? null,
    host: beat?.host ?? instance?.host ?? null,
    preempted: isPreempted(machine),
    error: errorOf(machine, state === 'error'),
    was_doing: state === 'lost' ? wasDoing(machine) : null,
    disconnected: machine.disconnected,
  };
}

/** Returns fields of a heartbeat, null where it lacks them. */
function reported<Name extends keyof Heartbeat>(
  names: readonly Name[],
  beat: Heartbeat | null,
): Reported<Name> {
  const fields: Partial<Reported<Name>> = {};
  for (const name of names) fields[name] = beat?.[name] ?? null;
  return fields as Reported<Name>;
}

type Reported<Name extends keyof Heartbeat> = { [N in Name]: NonNullable<Heartbeat[N]> | null };

/** Returns the GPU itself, without its measurements. */
function withoutReadings({ name, memory_total_bytes }: GpuReading): GpuReading {
  return {
    ...(name !== undefined && { name }),
    ...(memory_total_bytes !== undefined && { memory_total_bytes }),
  };
}

function errorOf({ heartbeat, heartbeat_at }: Machine, hasFailed: boolean): WorkerRow['error'] {
  if (!heartbeat || (heartbeat.error_message === undefined && !hasFailed)) return null;
  const message = heartbeat.error_message || `it said "${heartbeat.status}" and not why`;
  const { advice } = heartbeat;
  return { message: withoutAdvice(message, advice), advice: advice ?? null, at: heartbeat_at ?? 0 };
}

/** Removes the advice that ends a worker's message, for servers that do not know the field. */
function withoutAdvice(message: string, advice: string | undefined): string {
  const isOnlyAdvice = message === advice;
  return advice && !isOnlyAdvice && message.endsWith(advice)
    ? message.slice(0, -advice.length).trimEnd()
    : message;
}

function wasDoing({ heartbeat, was_running, disconnected }: Machine): string {
  const running = was_running ?? heartbeat?.running ?? 0;
  if (running > 0) return `was running ${counted(running, 'job')}`;
  if (disconnected) return 'was idle';
  const { phase, progress } = heartbeat ?? {};
  if (phase === undefined || phase === 'ready') return 'was starting';
  return progress === undefined ? `was loading (${phase})` : `was loading (${phase}, ${percent(progress)})`;
}

/**
 * Returns for how long no heartbeat has come of a connected worker that sends them, ms, once that is three intervals;
 * else null.
 */
export function withoutHeartbeats(row: WorkerRow, now: number): number | null {
  const { heartbeat_at, heartbeat_interval_ms, connected_at } = row;
  if (heartbeat_at === null || heartbeat_interval_ms === null || connected_at === null) return null;
  // The newest heartbeat may be from before the connection.
  const dueMs = now - Math.max(heartbeat_at, connected_at);
  return dueMs > LOST_INTERVALS * heartbeat_interval_ms ? now - heartbeat_at : null;
}

/** Returns whether a worker in this state takes jobs. */
export function isReady(state: WorkerState): boolean {
  return state === 'ready' || state === 'running';
}

/** Returns whether a worker in this state is neither lost nor ended. */
export function atWork(state: WorkerState): boolean {
  return state !== 'lost' && state !== 'stopped';
}

/** Says what a worker that is not ready does, after its name: "loads, 62 %, usually 3 min". */
export function doing(row: WorkerRow, now: number): string {
  switch (row.state) {
    case 'starting':
      return `starts${usually(row)}`;
    case 'loading':
      return `loads${row.progress === null ? '' : `, ${percent(row.progress)}`}${usually(row)}`;
    case 'late':
      return `has not been heard of for ${span(now - lastHeard(row, now))}`;
    case 'paused':
      return 'takes no jobs for now';
    case 'draining':
      return row.preempted ? 'drains, since its machine is being taken away' : 'drains';
    case 'error':
      return `failed: ${firstLine(row.error?.message ?? 'it does not say why', 120)}`;
    case 'lost':
      return `is lost; it ${row.was_doing}`;
    case 'stopped':
      return row.preempted ? 'stopped, since its machine was taken away' : 'stopped';
    default:
      return 'is ready';
  }
}

/**
 * Returns how long a start has taken and how long it may still take; null: the worker is not starting, or never
 * reported when its start began.
 */
export function startTimes(row: WorkerRow, now: number): { taken: number; left: number | null } | null {
  const created = row.start.created_ms ?? row.start.engine_started_ms;
  if (created === undefined || row.start.engine_healthy_ms !== undefined) return null;
  const taken = Math.max(0, now - created);
  return { taken, left: row.expected_start_ms === null ? null : row.expected_start_ms - taken };
}

export function lastHeard({ heartbeat_at, disconnected }: WorkerRow, now: number): number {
  const heard = Math.max(heartbeat_at ?? 0, disconnected?.at ?? 0);
  return heard === 0 ? now : heard;
}

function usually({ expected_start_ms }: WorkerRow): string {
  return expected_start_ms === null ? '' : `, usually ${span(expected_start_ms)}`;
}
