import type { WorkerRow, WorkerState } from '../../protocol/index.ts';
import { firstLine, percent, span } from './words.ts';

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
      return 'drains';
    case 'error':
      return `failed: ${firstLine(row.error?.message ?? 'it does not say why', 120)}`;
    case 'lost':
      return `is lost; it ${row.was_doing}`;
    case 'stopped':
      return 'stopped';
    default:
      return 'is ready';
  }
}

/**
 * Returns how long a start has taken and how long it may still take; null: the worker is not starting, or never
 * reported when that began.
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
