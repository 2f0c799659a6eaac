/** The work of a load generator. Times in ms. */
export interface LoadPlan {
  /** The address of the server, without a path. */
  url: string;
  /** `closed`: so many callers, each asks again when it is answered. `open`: arrivals at a rate, whatever is answered. */
  arrivals:
    | { kind: 'closed'; callers: number; requests: number }
    | { kind: 'open'; ratePerSecond: number; requests: number };
  tokens: number;
  /** Left out: requests have no authorization. */
  token?: string;
}

/** The figures of a load, over all its requests. */
export interface LoadResult {
  /** Time to the first bytes of each answer, and to its end. */
  firstMs: number[];
  totalMs: number[];
  /** Between two tokens of one stream; tokens that arrive together have 0 between them. */
  gapMs: Percentiles;
  tokensPerSecond: number;
  /** From the first request to the end of the last. */
  durationMs: number;
}

export interface Percentiles {
  p50: number;
  p90: number;
  p99: number;
  max: number;
}
