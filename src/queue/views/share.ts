import type { PoolShare, QueueShare } from '../../fleet/rpc.ts';
import type { PoolMetrics, QueueMetrics } from '../rpc.ts';
import { cumulative } from '../state/histogram.ts';
import { MODES, newCounts, type Outcome } from '../state/pool-counts.ts';
import type { Core } from '../state/state.ts';
import { sessions } from './fleet-views.ts';
import { poolsNow } from './pool-now.ts';

/** Returns everything that machines ask of the queue except the size of its database. */
export function metrics(core: Core): Omit<QueueMetrics, 'storage_bytes' | 'relays'> {
  const pools = [...poolsNow(core)].map(([config_id, now]) => {
    return { config_id, now, counts: core.counts.of(config_id) ?? newCounts() };
  });
  return { at: core.now(), pools };
}

/** Returns all numbers of the queue that the fleet object shows. */
export function share(core: Core): QueueShare {
  const { at, pools } = metrics(core);
  return { at, full: true, sessions: sessions(core), gone: [], pools: pools.map(poolShare) };
}

function poolShare({ config_id, now, counts }: PoolMetrics): PoolShare {
  const ended = (outcome: Outcome) => sum(MODES.map((mode) => counts.settled[mode][outcome]));
  const oldest = [now.oldest_since.waiting, now.oldest_since.stored].filter((at) => at !== null);
  return {
    config_id,
    pending: {
      waiting: sum(now.pending.map(({ waiting }) => waiting)),
      stored: sum(now.pending.map(({ stored }) => stored)),
    },
    by_priority: now.pending.map(({ priority, waiting, stored }) => ({
      priority,
      pending: waiting + stored,
    })),
    oldest_since: oldest.length === 0 ? null : Math.min(...oldest),
    oldest_caller_since: now.oldest_since.waiting,
    running: now.slots.busy,
    submitted_in_background: counts.submitted_in_background,
    totals: {
      submitted: counts.submitted.waiting + counts.submitted.stored,
      succeeded: ended('succeeded'),
      failed: ended('failed'),
      cancelled: ended('cancelled'),
      expired: ended('expired'),
      rejected: ended('rejected'),
      turned_away: counts.turned_away,
      tokens_in: counts.tokens.input,
      tokens_out: counts.tokens.output,
      tokens_cached: counts.tokens.cached_input,
      tokens_predicted: counts.prefix_hits.predicted,
    },
    wait_buckets: cumulative(counts.queue_wait),
    first_token_buckets: cumulative(counts.first_token),
    live_first_token_buckets: cumulative(counts.live_first_token),
    per_token_buckets: cumulative(counts.per_token),
    duration_buckets: cumulative(counts.duration),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
