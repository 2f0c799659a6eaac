import type { Heartbeat, WorkerState } from '../../protocol/index.ts';
import type { KnownWorker } from '../rpc.ts';

/** The interval of workers that do not report it, as in the base protocol. */
const USUAL_INTERVAL_MS = 60_000;
/** A heartbeat is late beyond so many intervals: one, and a tolerance for the way. */
const LATE_INTERVALS = 1.25;
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
 * Returns the state of a worker: by its connection where it has one, else by its heartbeats and their age.
 * @param isOver whether the scheduler launched its machine and knows that it is gone
 */
export function stateOf(worker: KnownWorker, isOver: boolean, now: number): StateNow {
  const { session, heartbeat, heartbeat_at } = worker;
  if (!session) return unconnected(worker, isOver, now);
  // A heartbeat from before the worker connected is of an earlier process.
  const isNews = heartbeat_at !== null && heartbeat_at >= session.connected_at;
  if (isNews && saysError(heartbeat)) return { state: 'error', since: heartbeat_at, until: FOREVER };
  const state = session.state === 'ready' && session.running > 0 ? 'running' : session.state;
  return { state, since: null, until: FOREVER };
}

function unconnected(worker: KnownWorker, isOver: boolean, now: number): StateNow {
  const { heartbeat, heartbeat_at, heard_at, disconnected } = worker;
  // The pool's starts report a launch that failed, until one succeeds.
  const hasEnded = heartbeat?.status === 'stopping' || (isOver && saysError(heartbeat));
  if (hasEnded) return { state: 'stopped', since: heartbeat_at, until: FOREVER };
  const interval = intervalMs(heartbeat);
  const lostAt = heard_at + LOST_INTERVALS * interval;
  const stoodUntil = Math.max(lostAt, (heartbeat_at ?? heard_at) + ERROR_STANDS_MS);
  if (saysError(heartbeat) && now <= stoodUntil) {
    return { state: 'error', since: heartbeat_at, until: stoodUntil + 1 };
  }
  if (now > lostAt) return { state: 'lost', since: lostAt, until: FOREVER };
  // A process that starts again is not late because the one before it is gone.
  const startsAgain = heartbeat?.status === 'starting' && (heartbeat_at ?? 0) > (disconnected?.at ?? 0);
  const endedAt = startsAgain ? undefined : disconnected?.at;
  const lateAt = endedAt ?? heard_at + LATE_INTERVALS * interval;
  if (now >= lateAt) return { state: 'late', since: lateAt, until: lostAt + 1 };
  const isLoading = heartbeat?.phase !== undefined && heartbeat.phase !== 'ready';
  const since = (isLoading ? heartbeat.start?.engine_started_ms : heartbeat?.start?.created_ms) ?? null;
  return { state: isLoading ? 'loading' : 'starting', since, until: lateAt };
}

function saysError(beat: Heartbeat | null): boolean {
  return beat?.status === 'error' || beat?.status === 'failed' || beat?.status === 'fatal';
}
