import type { WorkerState } from '../../protocol/fleet-view.ts';

/**
 * The rank of a worker's state by how much it needs somebody, most first. Working states share one rank, whether or
 * not jobs run there just now: rows change their places only when something is wrong.
 */
export const TROUBLE: Record<WorkerState, number> = {
  error: 0,
  lost: 1,
  late: 2,
  paused: 3,
  starting: 4,
  loading: 4,
  draining: 5,
  running: 6,
  ready: 6,
  stopped: 7,
};
