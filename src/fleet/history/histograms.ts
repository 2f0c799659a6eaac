import {
  DURATION_BOUNDS,
  FIRST_TOKEN_BOUNDS,
  PER_TOKEN_BOUNDS,
  QUEUE_WAIT_BOUNDS,
} from '../../protocol/index.ts';

/** The histograms in a history, with the upper bounds of their buckets, s. */
export const HISTOGRAMS = {
  wait: QUEUE_WAIT_BOUNDS,
  first_token: FIRST_TOKEN_BOUNDS,
  /** The times to the first token of callers that waited on their connection. */
  live_first_token: FIRST_TOKEN_BOUNDS,
  per_token: PER_TOKEN_BOUNDS,
  duration: DURATION_BOUNDS,
} as const;
export type HistogramName = keyof typeof HISTOGRAMS;
export const HISTOGRAM_NAMES = Object.keys(HISTOGRAMS) as HistogramName[];

/** Makes a value for each histogram, by name. */
export function ofEach<T>(make: (name: HistogramName) => T): Record<HistogramName, T> {
  return Object.fromEntries(HISTOGRAM_NAMES.map((name) => [name, make(name)])) as Record<HistogramName, T>;
}
