import type { Percentiles } from '../../protocol/index.ts';
import type { Buckets } from './chunk.ts';

/**
 * Estimates percentiles of a histogram as PromQL's `histogram_quantile` does: evenly within a bucket; in the last one,
 * which has no upper bound, its lower bound.
 * @param bounds upper bounds of all buckets but the last, s
 * @returns ms; null: nothing was measured
 */
export function percentilesOf(buckets: Buckets | null, bounds: readonly number[]): Percentiles | null {
  const all = Object.values(buckets ?? {}).reduce((total, count) => total + count, 0);
  if (buckets === null || all === 0) return null;
  const at = (share: number) => Math.round(quantile(buckets, bounds, share * all) * 1000 * 10) / 10;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), n: all };
}

function quantile(buckets: Buckets, bounds: readonly number[], rank: number): number {
  let below = 0;
  for (const [bucket, upper] of bounds.entries()) {
    const count = buckets[bucket] ?? 0;
    if (below + count >= rank && count > 0) {
      const lower = bounds[bucket - 1] ?? 0;
      return lower + ((upper - lower) * (rank - below)) / count;
    }
    below += count;
  }
  return bounds.at(-1) ?? 0;
}

/**
 * Returns what came to a histogram since its last report. A histogram that has become smaller began anew.
 * @param cumulative counts up to each bound, and last of all; empty: nothing was measured
 */
export function newInBuckets(cumulative: readonly number[], before: readonly number[]): Buckets {
  const base = (cumulative.at(-1) ?? 0) < (before.at(-1) ?? 0) ? [] : before;
  const added: Buckets = {};
  for (let bucket = 0; bucket < cumulative.length; bucket++) {
    const upTo = (cumulative[bucket] ?? 0) - (base[bucket] ?? 0);
    const upToLower = bucket === 0 ? 0 : (cumulative[bucket - 1] ?? 0) - (base[bucket - 1] ?? 0);
    if (upTo > upToLower) added[bucket] = upTo - upToLower;
  }
  return added;
}
