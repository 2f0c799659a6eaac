import type { BatchBacklog } from '../observed.ts';

/** A start is worth it for so many times its own length of work. */
const STARTS_WORTH = 3;

export interface BatchWant {
  /** Workers to be launched for it, where there are fewer. */
  workers: number;
  /** It keeps one that is up anyway. */
  keeps: number;
  /** Slot-seconds. */
  backlog: number;
  why: string;
}

/**
 * How many workers the lines of batches need. A start for one line costs more than the line, so they begin one only
 * when there is work for several starts, or when it must begin now to end within its window. They are planned to be
 * done in half the time that is left.
 * @param service seconds a line occupies a slot
 * @param slots of a worker
 * @param start seconds from the decision to ready
 */
export function wantForBatches(
  batches: BatchBacklog[],
  running: number,
  service: number,
  slots: number,
  start: number,
  now: number,
): BatchWant {
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
  const keeps = backlog > 0 || running > 0 ? 1 : 0;
  if (!isWorth && !isLast)
    return { workers: 0, keeps, backlog, why: 'too little for a start, and not urgent' };
  return {
    workers,
    keeps,
    backlog,
    why: isLast ? 'it must begin now to end within its window' : 'it is worth a start',
  };
}
