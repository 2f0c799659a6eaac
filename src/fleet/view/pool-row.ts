import { FIRST_TOKEN_BOUNDS, type PoolRates, type PoolRow } from '../../protocol/index.ts';
import type { Buckets } from '../history/chunk.ts';
import type { Met } from '../history/pool-history.ts';
import type { PoolShare } from '../rpc.ts';
import { type OfPool, whyWaiting } from './why-waiting.ts';
import { span } from './words.ts';
import { atWork, isReady } from './worker-row.ts';

/** The facts from which a pool's row is made, beside its workers and launches. */
export interface PoolFacts {
  config_id: string;
  /** The queue's newest report of the pool; null: there is none. */
  share: PoolShare | null;
  /** The usual duration of a start, from created to healthy, ms; null: none was seen. */
  expected_start_ms: number | null;
  now: PoolRates;
  hour: PoolRates;
  day: PoolRates;
  met: { short: Met; long: Met };
  objectives: Objectives;
}

/** Jobs that wait longer than this although workers are ready need an operator, ms. */
const LONG_WAIT_MS = 60_000;

/** Makes the row of a pool in the view. */
export function poolRow(pool: PoolFacts, of: OfPool, now: number): PoolRow {
  const { share } = pool;
  const { workers, scaling } = of;
  const connected = workers.filter(({ state }) => isReady(state) || state === 'paused');
  const there = workers.filter(({ state }) => atWork(state));
  const ready_workers = workers.filter(({ state }) => isReady(state)).length;
  const row: PoolRow = {
    config_id: pool.config_id,
    models: [...new Set(workers.flatMap(({ models }) => models))].sort(),
    workers: there.length,
    ready_workers,
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
    scaling: scaling && { ...scaling, ready: ready_workers },
  };
  if (waitingIn(row) === 0) return row;
  const is_batch = row.by_priority.every(({ priority, pending }) => pending === 0 || priority < 0);
  return { ...row, why_waiting: whyWaiting(row, of, { model: null, is_batch }, now) };
}

/**
 * Returns whether callers on a connection wait longer for their first token than the objective allows, or any job waits
 * long.
 */
export function waitsLong({ oldest_wait_ms, oldest_caller_wait_ms, objectives }: PoolRow): boolean {
  if ((oldest_caller_wait_ms ?? 0) > objectives.first_token.within_ms) return true;
  return (oldest_wait_ms ?? 0) > LONG_WAIT_MS;
}

/** Returns whether nothing waits but lines of batches for which no worker is to be launched yet: nothing is wrong. */
export function isPutOff({ why_waiting }: PoolRow): boolean {
  return why_waiting?.code === 'batch_start';
}

export function waitingIn({ pending }: PoolRow): number {
  return pending.waiting + pending.stored;
}

function sum<T>(list: readonly T[], of: (one: T) => number | null): number {
  return list.reduce((total, one) => total + (of(one) ?? 0), 0);
}

/** The objectives that callers of a pool may expect to be met. */
export interface Objectives {
  /** The share of callers on a connection that shall have their first token within a time. */
  first_token: { within_ms: number; share: number };
  /** The share of jobs that shall succeed. */
  success: number;
}

/** The objectives of pools for which the fleet's file has none. */
export const USUAL_OBJECTIVES: Objectives = {
  first_token: { within_ms: 10_000, share: 0.95 },
  success: 0.99,
};

type Standing = PoolRow['objectives'];
type Missed = Standing['success']['short'];

/**
 * Burn rates as alerts on error budgets use them (Google's SRE workbook, chapter 5): at 14.4 the budget of a month is
 * gone in two days, at 6 in five. The long window shows that the problem matters, the short one that it continues.
 */
const FAST = 14.4;
const SLOW = 6;
/** The least number of misses that counts as missing an objective; fewer prove nothing. */
const LEAST_MISSED = 5;

/** Returns how well a pool meets its objectives. */
function standingOf({ short, long }: { short: Met; long: Met }, objectives: Objectives): Standing {
  const { first_token, success } = objectives;
  const ofSuccess = (met: Met) => missedOf(met.failed, met.failed + met.succeeded, success);
  const ofFirstToken = ({ first_token: buckets }: Met) => {
    const all = Object.values(buckets).reduce((sum, count) => sum + count, 0);
    return missedOf(all - within(buckets, first_token.within_ms / 1000), all, first_token.share);
  };
  return {
    first_token: { ...first_token, short: ofFirstToken(short), long: ofFirstToken(long) },
    success: { share: success, short: ofSuccess(short), long: ofSuccess(long) },
  };
}

/**
 * Returns whether an objective is being missed: `now`, in the newest minutes alone; `fast` and `slow`, over the hour
 * too.
 */
function missing({ short, long }: { short: Missed; long: Missed }): 'fast' | 'now' | 'slow' | null {
  const burns = ({ missed, burn }: Missed, rate: number) => missed >= LEAST_MISSED && (burn ?? 0) >= rate;
  if (burns(short, FAST)) return burns(long, FAST) ? 'fast' : 'now';
  return (short.burn ?? 0) >= SLOW && burns(long, SLOW) ? 'slow' : null;
}

/** Returns whether the objective is missed so often in the newest minutes that the fleet is not well now. */
function isMissedNow({ short }: { short: Missed }): boolean {
  return short.missed >= LEAST_MISSED && (short.burn ?? 0) >= SLOW;
}

function missedOf(missed: number, of: number, share: number): Missed {
  const burn = of === 0 ? null : Math.round((missed / of / (1 - share)) * 10) / 10;
  return { missed: Math.round(missed), of, burn };
}

/** Estimates how many values of a histogram were at most `seconds`, evenly within a bucket. */
function within(buckets: Buckets, seconds: number): number {
  let lower = 0;
  let count = 0;
  for (const [bucket, upper] of FIRST_TOKEN_BOUNDS.entries()) {
    const here = buckets[bucket] ?? 0;
    if (upper > seconds) return count + (here * Math.max(0, seconds - lower)) / (upper - lower);
    count += here;
    lower = upper;
  }
  return count;
}

type Name = keyof Standing;

const NAMES: readonly Name[] = ['success', 'first_token'];

/** Says what a pool misses in its newest minutes, after its name; null: nothing. */
export function missedNow({ objectives }: PoolRow): string | null {
  for (const name of NAMES) {
    if (isMissedNow(objectives[name])) return missedWords(objectives, name, 'short');
  }
  return null;
}

/** Lists every objective that a pool misses, the most important first. */
export function missedIn({ objectives }: PoolRow): { name: Name; isFast: boolean; text: string }[] {
  return NAMES.flatMap((name) => {
    const is = missing(objectives[name]);
    if (is === null) return [];
    return [
      { name, isFast: is === 'fast', text: missedWords(objectives, name, is === 'now' ? 'short' : 'long') },
    ];
  });
}

/** Writes "10 of 40 jobs failed, expired or found no slot within the hour (25 %; the objective allows 1 %)". */
function missedWords(objectives: Standing, name: Name, window: 'short' | 'long'): string {
  const { missed, of } = objectives[name][window];
  const what =
    name === 'success'
      ? `${missed} of ${of} jobs failed, expired or found no slot`
      : `${missed} of ${of} callers waited longer than ${span(objectives.first_token.within_ms)} for their first token`;
  const when = window === 'short' ? 'within five minutes' : 'within the hour';
  return `${what} ${when} (${percent(missed / of)}; the objective allows ${percent(1 - objectives[name].share)})`;
}

/** Writes a share with a decimal where it would be lost: `0.5 %`. */
function percent(share: number): string {
  const hundredths = share * 100;
  return `${hundredths < 10 ? Number(hundredths.toFixed(1)) : Math.round(hundredths)} %`;
}
