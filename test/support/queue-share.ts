import type { PoolShare, SessionShare } from '../../src/fleet/rpc.ts';
import { FIRST_TOKEN_BOUNDS, QUEUE_WAIT_BOUNDS } from '../../src/protocol/index.ts';

/** What a queue tells its fleet object, with as little as a test needs. */

export function session(worker_id: string, more: Partial<SessionShare> = {}): SessionShare {
  return {
    worker_id,
    config_id: 'cfg',
    state: 'ready',
    protocol: 'extended',
    capacity: 4,
    running: 0,
    connected_at: 0,
    models: ['tiny'],
    adapters: null,
    ...more,
  };
}

export type PoolNumbers = Partial<Omit<PoolShare, 'totals'>> & {
  totals?: Partial<PoolShare['totals']>;
};

export function pool(config_id: string, { totals, ...more }: PoolNumbers = {}): PoolShare {
  return {
    config_id,
    pending: { waiting: 0, stored: 0 },
    by_priority: [],
    oldest_since: null,
    oldest_caller_since: null,
    running: 0,
    submitted_in_background: 0,
    totals: {
      submitted: 0,
      succeeded: 0,
      failed: 0,
      cancelled: 0,
      expired: 0,
      rejected: 0,
      turned_away: 0,
      tokens_in: 0,
      tokens_out: 0,
      tokens_cached: 0,
      tokens_predicted: 0,
      ...totals,
    },
    wait_buckets: [],
    first_token_buckets: [],
    live_first_token_buckets: [],
    per_token_buckets: [],
    duration_buckets: [],
    ...more,
  };
}

/** Cumulative counts of a histogram of these measurements, s. */
export function histogram(of: 'wait' | 'first_token', seconds: readonly number[]): number[] {
  const bounds: readonly number[] = of === 'wait' ? QUEUE_WAIT_BOUNDS : FIRST_TOKEN_BOUNDS;
  return [...bounds, Number.POSITIVE_INFINITY].map(
    (bound) => seconds.filter((value) => value <= bound).length,
  );
}
