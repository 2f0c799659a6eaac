import type { BatchBacklog } from '../rule-types.ts';

/** A start pays off for this many times its own length of work. */
const STARTS_WORTH = 3;

export interface BatchWorkers {
  /** Workers that batches need. */
  workers: number;
  /** Running workers that batches keep, 0 or 1. */
  floor: number;
  /** Slot-seconds. */
  backlog: number;
  why: string;
}

/**
 * How many workers the lines of batches need. A start for one line costs more than the line, so batches launch a worker
 * only when there is work for several starts, or when a batch has to begin now to end within its window. The rule plans
 * to finish in half the time that is left.
 * @param service seconds a line occupies a slot
 * @param slots of a worker
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
  let isLast = false;
  for (const { lines, ends_at } of [...batches].sort((one, other) => one.ends_at - other.ends_at)) {
    backlog += lines * service;
    if (lines === 0) continue;
    const left = Math.max(0, (ends_at - now) / 1000 - start);
    workers = Math.max(workers, Math.ceil(backlog / (slots * Math.max(left / 2, start))));
    isLast ||= now / 1000 >= ends_at / 1000 - backlog / slots - 2 * start;
  }
  const isWorth = backlog >= STARTS_WORTH * start * slots;
  const floor = backlog > 0 || running > 0 ? 1 : 0;
  if (!isWorth && !isLast)
    return { workers: 0, floor, backlog, why: 'too little for a start, and not urgent' };
  return {
    workers,
    floor,
    backlog,
    why: isLast ? 'it must begin now to end within its window' : 'it is worth a start',
  };
}
