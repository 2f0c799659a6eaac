import type { PoolShare, QueueShare, SessionShare } from '../../fleet/rpc.ts';
import { Counts } from '../projections/counts.ts';
import { Mirrors } from '../projections/mirrors.ts';
import { cumulative, MODES, newCounts, type Outcome, type PoolCounts } from '../projections/pool-counts.ts';
import { RequestRecords } from '../projections/request-records.ts';
import type { PoolJobs, PoolMetrics, QueueMetrics, QueueStatus } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { isLeaving, profileOf, type Worker } from '../state/worker.ts';
import { poolsNow } from './pools.ts';

/** Shows the connected workers and the queue's numbers to other parts of the system. */

export function sessions(core: Core): SessionShare[] {
  return core.workers.all().map((worker) => ({
    worker_id: worker.session.worker_id,
    config_id: worker.session.config_id,
    state: sessionState(worker),
    ...(worker.session.draining && { drains_itself: true }),
    ...(worker.session.preempted && { preempted: true }),
    protocol: profileOf(worker).protocol,
    capacity: worker.session.capacity,
    running: worker.running.size,
    models: worker.models,
    adapters: worker.adapters,
    connected_at: worker.session.connected_at,
  }));
}

/** Says whether a worker is connected under this session. */
export function hasSession(core: Core, workerId: string, sessionId: string): boolean {
  return core.workers.byId(workerId)?.session.session_id === sessionId;
}

export function status(core: Core): QueueStatus {
  const all = core.workers.all();
  return {
    queue_id: core.settings.queue_id,
    workers: all.length,
    slots: all.reduce((sum, worker) => sum + worker.session.capacity, 0),
    running: all.reduce((sum, worker) => sum + worker.running.size, 0),
    pending: core.stored.pending.all + core.waiting.line.size,
  };
}

/** Counts the jobs of a pool by their state. */
export function poolJobs(core: Core, configId: string): PoolJobs {
  const workers = core.workers.all().filter(({ session }) => session.config_id === configId);
  return {
    in_queue: core.stored.pending.ofPool(configId) + core.waiting.line.ofPool(configId),
    in_progress: workers.reduce((sum, worker) => sum + worker.running.size, 0),
    ...ended(core.projections.get(Counts).of(configId)),
  };
}

function ended(counts: PoolCounts | null): Omit<PoolJobs, 'in_queue' | 'in_progress'> {
  if (counts === null) return { completed: 0, failed: 0, retried: 0 };
  const { waiting, stored } = counts.settled;
  return {
    completed: waiting.succeeded + stored.succeeded,
    failed: waiting.failed + waiting.expired + stored.failed + stored.expired,
    retried: counts.retried,
  };
}

function sessionState(worker: Worker): SessionShare['state'] {
  if (isLeaving(worker)) return 'draining';
  return worker.session.paused ? 'paused' : 'ready';
}

/** Returns everything that machines ask of the queue except the size of its database. */
export function metrics(core: Core): Omit<QueueMetrics, 'storage_bytes' | 'relays'> {
  const pools = [...poolsNow(core)].map(([config_id, now]) => {
    return { config_id, now, counts: core.projections.get(Counts).of(config_id) ?? newCounts() };
  });
  return {
    at: core.now(),
    pools,
    mirrors: core.projections.get(Mirrors).counts(),
    fall_backs: core.projections.get(RequestRecords).fallBacks(),
  };
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
