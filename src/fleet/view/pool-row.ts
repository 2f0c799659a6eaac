import type { PoolRow } from '../../protocol/index.ts';
import type { PoolFacts } from './facts.ts';
import { standingOf } from './objectives.ts';
import { type OfPool, whyWaiting } from './why-waiting.ts';
import { atWork, isReady } from './worker-words.ts';

/** Jobs that wait longer than this although workers are ready need an operator, ms. */
const LONG_WAIT_MS = 60_000;

/** Makes the row of a pool in the view. */
export function poolRow(pool: PoolFacts, of: OfPool, now: number): PoolRow {
  const { share } = pool;
  const { workers, scaling } = of;
  const connected = workers.filter(({ state }) => isReady(state) || state === 'paused');
  const there = workers.filter(({ state }) => atWork(state));
  const row: PoolRow = {
    config_id: pool.config_id,
    models: [...new Set(workers.flatMap(({ models }) => models))].sort(),
    workers: there.length,
    ready_workers: workers.filter(({ state }) => isReady(state)).length,
    slots: sum(connected, ({ slots }) => slots),
    busy_slots: sum(connected, ({ running }) => running),
    pending: share?.pending ?? { waiting: 0, stored: 0 },
    by_priority: share?.by_priority ?? [],
    oldest_wait_ms: share?.oldest_since == null ? null : Math.max(0, now - share.oldest_since),
    oldest_caller_wait_ms:
      share?.oldest_caller_since == null ? null : Math.max(0, now - share.oldest_caller_since),
    why_waiting: null,
    now: pool.now,
    hour: pool.hour,
    day: pool.day,
    objectives: standingOf(pool.met, pool.objectives),
    scaling,
  };
  if (waitingIn(row) === 0) return row;
  const is_batch = row.by_priority.every(({ priority, pending }) => pending === 0 || priority < 0);
  return { ...row, why_waiting: whyWaiting(row, of, { model: null, is_batch }, now) };
}

/**
 * Returns whether callers on a connection wait longer for their first token than the objective allows, or any job for
 * long.
 */
export function waitsLong({ oldest_wait_ms, oldest_caller_wait_ms, objectives }: PoolRow): boolean {
  if ((oldest_caller_wait_ms ?? 0) > objectives.first_token.within_ms) return true;
  return (oldest_wait_ms ?? 0) > LONG_WAIT_MS;
}

/** Returns whether only lines of batches wait, for which no worker is to be launched yet: nothing is wrong. */
export function isPutOff({ why_waiting }: PoolRow): boolean {
  return why_waiting?.code === 'batch_start';
}

export function waitingIn({ pending }: PoolRow): number {
  return pending.waiting + pending.stored;
}

function sum<T>(list: readonly T[], of: (one: T) => number | null): number {
  return list.reduce((total, one) => total + (of(one) ?? 0), 0);
}
