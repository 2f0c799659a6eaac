import type { BatchBacklog } from '../rule-types.ts';

/** Batches launch a worker when their work takes this many times as long as a start. */
const STARTS_WORTH = 3;

export interface BatchWorkers {
  /** The number of workers that batches need. */
  workers: number;
  /** The number of running workers that batches keep, 0 or 1. */
  floor: number;
  /** The work of all lines, slot-seconds. */
  backlog: number;
  /** The number of lines that have not begun to run. */
  lines: number;
  /** The work from which on the lines are worth a start, slot-seconds. */
  worth: number;
  /** When a worker is launched for the lines, however few there are, epoch ms; null where there are none. */
  begins_by: number | null;
  why: string;
}

/**
 * Returns how many workers the lines of batches need. A start for one line costs more than the line, so batches launch
 * a worker only when there is work for several starts, or when a batch has to begin now to end within its window. The
 * rule plans to finish in half the time that is left.
 * @param service seconds that a line occupies a slot
 * @param slots the slots of a worker
 * @param start seconds from the decision to ready
 */
export function workersForBatches(
  batches: BatchBacklog[],
  running: number,
  service: number,
  slots: number,
  start: number,
  now: number,
): BatchWorkers {
  let backlog = 0;
  let workers = 0;
  let begins_by: number | null = null;
  for (const { lines, ends_at } of [...batches].sort((one, other) => one.ends_at - other.ends_at)) {
    backlog += lines * service;
    if (lines === 0) continue;
    const left = Math.max(0, (ends_at - now) / 1000 - start);
    workers = Math.max(workers, Math.ceil(backlog / (slots * Math.max(left / 2, start))));
    const last = ends_at - 1000 * (backlog / slots + 2 * start);
    begins_by = Math.min(begins_by ?? last, last);
  }
  const worth = STARTS_WORTH * start * slots;
  const isLast = begins_by !== null && now >= begins_by;
  const known = {
    floor: backlog > 0 || running > 0 ? 1 : 0,
    backlog,
    lines: batches.reduce((sum, { lines }) => sum + lines, 0),
    worth,
    begins_by,
  };
  if (backlog < worth && !isLast)
    return { workers: 0, ...known, why: 'too little for a start, and not urgent' };
  return {
    workers,
    ...known,
    why: isLast ? 'it must begin now to end within its window' : 'it is worth a start',
  };
}
