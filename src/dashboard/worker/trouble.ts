import type { WorkerState } from '../../protocol/fleet-view.ts';

/**
 * How much it needs somebody, most first. Those that work are one, whether or not jobs run there just now: rows change
 * their places only when something is the matter.
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
