/** A histogram as it is kept: what was measured up to each bound, and above the last; not cumulative. */
export interface Histogram {
  counts: number[];
  /** Of all that was measured, s. */
  sum: number;
}

export function newHistogram(bounds: readonly number[]): Histogram {
  return { counts: new Array(bounds.length + 1).fill(0), sum: 0 };
}

/** @param ms below 0 counts as 0: clocks are set back */
export function observe(histogram: Histogram, bounds: readonly number[], ms: number): void {
  const seconds = Math.max(0, ms) / 1000;
  let at = 0;
  while (at < bounds.length && seconds > bounds[at]!) at += 1;
  histogram.counts[at]! += 1;
  histogram.sum += seconds;
}

/** For each bound what was measured up to it, and last all; empty: nothing was measured. */
export function cumulative({ counts }: Histogram): number[] {
  let all = 0;
  const sums = counts.map((count) => (all += count));
  return all === 0 ? [] : sums;
}
