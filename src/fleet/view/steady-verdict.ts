import type { Verdict } from '../../protocol/index.ts';

/** A verdict that grows worse within this time after it grew better goes up and down, ms. */
const SHAKY_MS = 5 * 60_000;
/** A verdict that goes up and down is shown as better only once it has been better for this long, ms. */
const HOLD_MS = 2 * 60_000;

const RANKS: Record<Verdict, number> = { empty: 0, serving: 0, degraded: 1, not_serving: 2 };

/** The verdict that is shown, and what of its past decides about the next one. Times are epoch ms. */
export interface Steady {
  shown: Verdict;
  /** When the shown verdict last grew better; null: never. */
  improved_at: number | null;
  /** Whether the shown verdict has grown worse soon after it grew better. */
  is_shaky: boolean;
  /** The time since which a better verdict has been found than is shown; null: none is. */
  better_since: number | null;
}

/**
 * Decides which verdict is shown where `found` is found. A worse verdict is shown at once, and so is a better one; but
 * after a better verdict was soon taken back, the next has to hold for a while first. So a fleet at the edge does not
 * change its verdict with each request. A fleet that serves is never called down: meanwhile it is shown as degraded.
 * @param before null: nothing was shown yet
 */
export function steadied(before: Steady | null, found: Verdict, now: number): Steady {
  if (before === null) return { shown: found, improved_at: null, is_shaky: false, better_since: null };
  const worse = RANKS[found] - RANKS[before.shown];
  if (worse === 0) return { ...before, shown: found, better_since: null };
  const { improved_at } = before;
  if (worse > 0) {
    const is_shaky = improved_at !== null && now - improved_at < SHAKY_MS;
    return { shown: found, improved_at, is_shaky: is_shaky || before.is_shaky, better_since: null };
  }
  const better_since = Math.min(before.better_since ?? now, now);
  if (before.is_shaky && now - better_since < HOLD_MS) {
    if (before.shown !== 'not_serving') return { ...before, better_since };
    return { ...before, shown: 'degraded', better_since: found === 'degraded' ? null : better_since };
  }
  return { shown: found, improved_at: now, is_shaky: false, better_since: null };
}
