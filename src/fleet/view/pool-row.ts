import {
  type LaunchRow,
  type PoolRow,
  type PoolScaling,
  type WorkerRow,
  workerName,
} from '../../protocol/index.ts';
import type { PoolFacts } from './facts.ts';
import { nearestLaunch, startOf } from './launch-words.ts';
import { standingOf } from './objectives.ts';
import { heldBack } from './pool-start.ts';
import { percent, perSecond } from './words.ts';
import { atWork, doing, isReady } from './worker-words.ts';

/** Jobs that wait longer than this although workers are ready need an operator, ms. */
const LONG_WAIT_MS = 60_000;

/** What there is of a pool beside its own facts. */
export interface OfPool {
  workers: readonly WorkerRow[];
  launches: readonly LaunchRow[];
  scaling: PoolScaling | null;
}

/** A pool as it is shown. */
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
  return { ...row, why_waiting: waitingIn(row) === 0 ? null : whyWaiting(row, of, now) };
}

/** Callers on a connection wait longer than they shall for their first token, or stored jobs long. */
export function waitsLong({ oldest_wait_ms, oldest_caller_wait_ms, objectives }: PoolRow): boolean {
  if ((oldest_caller_wait_ms ?? 0) > objectives.first_token.within_ms) return true;
  return (oldest_wait_ms ?? 0) > LONG_WAIT_MS;
}

export function waitingIn({ pending }: PoolRow): number {
  return pending.waiting + pending.stored;
}

/** Why jobs of a pool wait: no worker, none of them ready, none with a free slot, or none that may take them. */
function whyWaiting(pool: PoolRow, of: OfPool, now: number): string {
  if (pool.ready_workers === 0) return whyNoneReady(of, now);
  if (pool.busy_slots >= pool.slots) {
    const { submitted, succeeded, failed, cancelled, expired } = pool.now;
    const ended = succeeded + failed + cancelled + expired;
    const rates = `${perSecond(submitted)} come, ${perSecond(ended)} end`;
    const slots = pool.slots === 1 ? 'its only slot is' : `all ${pool.slots} slots are`;
    return `${slots} busy: ${rates}`;
  }
  const paused = of.workers.find(({ state }) => state === 'paused');
  if (paused) return `${workerName(paused.worker_id)} takes no jobs for now: ${backlogOf(paused)}`;
  return 'slots are free, but these jobs wait before they are tried again, or no worker meets their deadlines';
}

/** "its only worker loads, 62 %, usually 3 min", "it has no worker". */
export function whyNoneReady({ workers, launches, scaling }: OfPool, now: number): string {
  const there = workers.filter(({ state }) => atWork(state));
  if (there.length === 0 && scaling) {
    const launch = nearestLaunch(launches);
    if (launch) return `a worker is being started: ${startOf(launch)}`;
    const held = heldBack(scaling);
    return held === null ? 'it has no worker yet' : `it has no worker, and none is started: ${held}`;
  }
  const [nearest] = [...(there.length > 0 ? there : workers)].sort((a, b) => rankOf(a) - rankOf(b));
  if (!nearest) return 'it has no worker';
  if (there.length === 0)
    return `it has no worker; the last one, ${workerName(nearest.worker_id)}, ${doing(nearest, now)}`;
  if (there.length === 1) return `its only worker ${doing(nearest, now)}`;
  return `none of its ${there.length} workers is ready: ${workerName(nearest.worker_id)} ${doing(nearest, now)}`;
}

/** Why an engine has a backlog, a clause. */
export function backlogOf({ engine_waiting, kv_cache_usage }: WorkerRow): string {
  const parts = [
    ...(engine_waiting
      ? [`${engine_waiting === 1 ? '1 request waits' : `${engine_waiting} requests wait`} in its engine`]
      : []),
    ...(kv_cache_usage !== null ? [`its KV cache is ${percent(kv_cache_usage)} full`] : []),
  ];
  return parts.length > 0 ? parts.join(', ') : 'its engine has a backlog';
}

const NEAREST_TO_READY = ['paused', 'loading', 'starting', 'late', 'draining', 'error', 'lost', 'stopped'];

function rankOf({ state, progress }: WorkerRow): number {
  return NEAREST_TO_READY.indexOf(state) - (progress ?? 0) / 2;
}

function sum<T>(list: readonly T[], of: (one: T) => number | null): number {
  return list.reduce((total, one) => total + (of(one) ?? 0), 0);
}
