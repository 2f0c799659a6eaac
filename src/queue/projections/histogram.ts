/**
 * A histogram as it is stored: the number of values up to each bound and above the bound before, last those above all.
 */
export interface Histogram {
  counts: number[];
  /** The sum of all values, s. */
  sum: number;
}

export function newHistogram(bounds: readonly number[]): Histogram {
  return { counts: new Array(bounds.length + 1).fill(0), sum: 0 };
}

/** Adds a value. @param ms counts as 0 if below 0, which clocks that are set back cause */
export function observe(histogram: Histogram, bounds: readonly number[], ms: number): void {
  const seconds = Math.max(0, ms) / 1000;
  let at = 0;
  while (at < bounds.length && seconds > bounds[at]!) at += 1;
  histogram.counts[at]! += 1;
  histogram.sum += seconds;
}

/** Returns the number of values up to each bound, and last of all values; empty if there are none. */
export function cumulative({ counts }: Histogram): number[] {
  let all = 0;
  const sums = counts.map((count) => (all += count));
  return all === 0 ? [] : sums;
}
