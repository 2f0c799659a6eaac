import { FIRST_TOKEN_BOUNDS, type PoolRow } from '../../protocol/index.ts';
import type { Buckets } from '../history/chunk.ts';
import type { Met } from '../history/pool-history.ts';

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
 * Burn rates as alerts on error budgets have them (Google's SRE workbook, chapter 5): at 14.4 the budget of a month is
 * gone in two days, at 6 in five. The long window says that it matters, the short one that it continues.
 */
const FAST = 14.4;
const SLOW = 6;
/** The least number that missed an objective; fewer say nothing. */
const LEAST_MISSED = 5;

/** Returns how far a pool meets its objectives. */
export function standingOf({ short, long }: { short: Met; long: Met }, objectives: Objectives): Standing {
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
 * Returns whether an objective is being missed: `now`, in the newest minutes alone; `fast` and `slow`, over the hour as
 * well.
 */
export function missing({ short, long }: { short: Missed; long: Missed }): 'fast' | 'now' | 'slow' | null {
  const burns = ({ missed, burn }: Missed, rate: number) => missed >= LEAST_MISSED && (burn ?? 0) >= rate;
  if (burns(short, FAST)) return burns(long, FAST) ? 'fast' : 'now';
  return (short.burn ?? 0) >= SLOW && burns(long, SLOW) ? 'slow' : null;
}

/** Returns whether the objective is missed so often in the newest minutes that the fleet is not well now. */
export function isMissedNow({ short }: { short: Missed }): boolean {
  return short.missed >= LEAST_MISSED && (short.burn ?? 0) >= SLOW;
}

function missedOf(missed: number, of: number, share: number): Missed {
  const burn = of === 0 ? null : Math.round((missed / of / (1 - share)) * 10) / 10;
  return { missed: Math.round(missed), of, burn };
}

/** Estimates how many of a histogram were at most so long, s; evenly within a bucket. */
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
