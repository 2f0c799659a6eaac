import {
  DURATION_BOUNDS,
  FIRST_TOKEN_BOUNDS,
  type FleetView,
  NANODOLLARS,
  PER_TOKEN_BOUNDS,
  PREFIX_MATCH_BOUNDS,
  QUEUE_WAIT_BOUNDS,
} from '../../protocol/index.ts';
import type { FallBackCount, MirrorCount, PoolMetrics, QueueMetrics, RelayMetrics } from '../../queue/rpc.ts';
import { by, type Family, gauge, histogramSamples, type Sample, withPool } from './exposition.ts';
import { fleetFamilies } from './fleet-families.ts';

/** Returns everything that `GET /metrics` shows of one queue; docs/metrics.md lists it. */
export function families(
  { at, storage_bytes, relays, pools, mirrors, fall_backs }: QueueMetrics,
  fleet: FleetView,
  version: string,
): Family[] {
  return [
    gauge('build_info', 'Always 1; the version of the queue.', [{ labels: { version }, value: 1 }]),
    gauge('storage_bytes', "Size of an object's database.", [
      { labels: { object: 'queue' }, value: storage_bytes },
    ]),
    ...(relays === null ? [] : relayFamilies(relays)),
    ...standing(pools, at),
    ...fleetFamilies(fleet, new Set(pools.map(({ config_id }) => config_id))),
    ...counters(pools),
    ...histograms(pools),
    ...aliasFamilies(mirrors, fall_backs),
  ];
}

function relayFamilies({ streams, received_bytes }: RelayMetrics): Family[] {
  return [
    gauge('relay_streams', 'Answers on their way to callers.', [{ labels: {}, value: streams }]),
    {
      name: 'relay_bytes_total',
      type: 'counter',
      help: 'Bytes of answers that workers sent.',
      samples: [{ labels: {}, value: received_bytes }],
    },
  ];
}

function aliasFamilies(mirrors: readonly MirrorCount[], fallBacks: readonly FallBackCount[]): Family[] {
  return [
    {
      name: 'mirrored_requests_total',
      type: 'counter',
      help: 'Copies of requests for an alias, by how they ended.',
      samples: mirrors.flatMap(({ alias, model, ...outcomes }) =>
        by('outcome', outcomes).map(({ labels, value }) => ({ labels: { alias, model, ...labels }, value })),
      ),
    },
    {
      name: 'alias_fall_backs_total',
      type: 'counter',
      help: 'Requests for an alias that ended at another model than its first choice, by why.',
      samples: fallBacks.map(({ alias, cause, requests }) => ({ labels: { alias, cause }, value: requests })),
    },
  ];
}

function standing(pools: readonly PoolMetrics[], at: number): Family[] {
  const age = (since: number | null) => (since === null ? 0 : Math.max(0, at - since) / 1000);
  return [
    gauge(
      'pending_jobs',
      'Jobs that wait for a slot or for their next attempt.',
      each(pools, ({ now: { pending } }) => by('priority_class', byClass(pending))),
    ),
    gauge(
      'oldest_pending_seconds',
      'Age of the job that has waited longest for a slot; 0 when none waits.',
      each(pools, ({ now: { oldest_since } }) =>
        by('mode', { waiting: age(oldest_since.waiting), stored: age(oldest_since.stored) }),
      ),
    ),
    gauge(
      'running_jobs',
      'Jobs that workers run.',
      each(pools, ({ now }) => by('mode', now.running)),
    ),
    gauge(
      'slots',
      'Jobs that the connected workers run side by side.',
      each(pools, ({ now }) => by('state', now.slots)),
    ),
    gauge(
      'wanted_workers',
      'Workers that could run at once all that waits and runs.',
      each(pools, ({ now }) => [{ labels: {}, value: now.wanted_workers }]),
    ),
  ];
}

function byClass(pending: PoolMetrics['now']['pending']): Record<'high' | 'normal' | 'low', number> {
  const classes = { high: 0, normal: 0, low: 0 };
  for (const { priority, waiting, stored } of pending) {
    classes[priority > 0 ? 'high' : priority < 0 ? 'low' : 'normal'] += waiting + stored;
  }
  return classes;
}

function counters(pools: readonly PoolMetrics[]): Family[] {
  const one = (value: number): Sample[] => [{ labels: {}, value }];
  const count = (
    name: string,
    help: string,
    samples: (counts: PoolMetrics['counts']) => Sample[],
  ): Family => ({
    name,
    type: 'counter',
    help,
    samples: each(pools, ({ counts }) => samples(counts)),
  });
  return [
    count('jobs_submitted_total', 'Jobs that came in.', ({ submitted }) => by('mode', submitted)),
    count('jobs_settled_total', 'Jobs that ended, by how.', ({ settled }) =>
      Object.entries(settled).flatMap(([mode, outcomes]) =>
        by('outcome', outcomes).map(({ labels, value }) => ({ labels: { mode, ...labels }, value })),
      ),
    ),
    count('dispatches_total', 'Jobs that were given to a worker.', ({ dispatches }) => one(dispatches)),
    count('attempts_total', 'Attempts that ended, by how.', ({ attempts }) => by('result', attempts)),
    count('releases_total', 'Attempts that were given back without blame, by why.', ({ releases }) =>
      by('reason', releases),
    ),
    count('lease_expiries_total', 'Leases that ran out.', ({ attempts }) => one(attempts.lease_expired)),
    count(
      'fence_refusals_total',
      'Settlements that were refused, since the job had gone to another attempt.',
      ({ fence_refusals }) => one(fence_refusals),
    ),
    count(
      'tokens_total',
      'Tokens, by kind; cached input is part of the input, reasoning of the output.',
      ({ tokens }) => by('kind', tokens),
    ),
    count(
      'slot_seconds_total',
      'Time that attempts held slots, by whether the price of the worker is known.',
      ({ cost }) =>
        cost.flatMap(({ tenant, slot_ms, unpriced_slot_ms }) =>
          by('price', { known: (slot_ms - unpriced_slot_ms) / 1000, unknown: unpriced_slot_ms / 1000 }).map(
            ({ labels, value }) => ({ labels: { tenant, ...labels }, value }),
          ),
        ),
    ),
    count('cost_dollars_total', 'What slots cost whose price is known, in US dollars.', ({ cost }) =>
      cost
        .filter(({ slot_ms, unpriced_slot_ms }) => slot_ms > unpriced_slot_ms)
        .map(({ tenant, nanodollars }) => ({ labels: { tenant }, value: nanodollars / NANODOLLARS })),
    ),
    count(
      'prefix_hit_predicted_tokens_total',
      'Tokens of prompts that the chosen worker was supposed to have computed before.',
      ({ prefix_hits }) => one(prefix_hits.predicted),
    ),
    count(
      'prefix_hit_seen_tokens_total',
      'Tokens of prompts that the engine had computed before, as it told.',
      ({ prefix_hits }) => one(prefix_hits.seen),
    ),
    count('usage_estimated_jobs_total', 'Jobs whose tokens their engine did not count.', ({ estimated }) =>
      one(estimated),
    ),
  ];
}

function histograms(pools: readonly PoolMetrics[]): Family[] {
  const histogram = (
    name: string,
    help: string,
    bounds: readonly number[],
    of: 'queue_wait' | 'first_token' | 'per_token' | 'duration' | 'run' | 'prefix_match',
  ): Family => ({
    name,
    type: 'histogram',
    help,
    samples: pools.flatMap(({ config_id, counts }) =>
      histogramSamples({ pool: config_id }, bounds, counts[of]),
    ),
  });
  return [
    histogram(
      'queue_wait_seconds',
      'From submission to the first dispatch.',
      QUEUE_WAIT_BOUNDS,
      'queue_wait',
    ),
    histogram(
      'time_to_first_token_seconds',
      'From submission to the first token of a streamed answer.',
      FIRST_TOKEN_BOUNDS,
      'first_token',
    ),
    histogram(
      'time_per_output_token_seconds',
      'Between two tokens of a streamed answer, as the mean of the answer.',
      PER_TOKEN_BOUNDS,
      'per_token',
    ),
    histogram(
      'request_duration_seconds',
      'From submission to the end of jobs that succeeded.',
      DURATION_BOUNDS,
      'duration',
    ),
    histogram(
      'run_seconds',
      'From the last dispatch to the end of jobs that succeeded.',
      DURATION_BOUNDS,
      'run',
    ),
    histogram(
      'prefix_match_ratio',
      'Share of a prompt that the chosen worker was supposed to have computed before.',
      PREFIX_MATCH_BOUNDS,
      'prefix_match',
    ),
  ];
}

function each(pools: readonly PoolMetrics[], samples: (pool: PoolMetrics) => Sample[]): Sample[] {
  return pools.flatMap((pool) => withPool(pool.config_id, samples(pool)));
}
