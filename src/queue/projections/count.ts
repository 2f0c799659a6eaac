import {
  DURATION_BOUNDS,
  FIRST_TOKEN_BOUNDS,
  PER_TOKEN_BOUNDS,
  QUEUE_WAIT_BOUNDS,
} from '../../protocol/index.ts';
import type { JobEvent } from '../events/event.ts';
import type { RefusalReason } from '../rpc.ts';
import { isBatchWork } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { firstTokenAt, submittedAt } from '../state/times.ts';
import { observe } from './histogram.ts';
import type { PoolCounts } from './pool-counts.ts';
import { predictedTokens, seenTokens } from './prefix-hits.ts';
import { decidedRequest } from './request-records.ts';

/** Counts what happened, by the job's pool. A request for an unknown model has no pool. */
export function toCounts(core: Core, event: JobEvent): void {
  const { job, step } = event;
  if (job.config_id === '') return;
  const count = COUNTERS[step];
  if (!count) return;
  const counts = core.counts.change(job.config_id, job.mode === 'stored');
  count(counts, event, core);
  if (wasRetried(event)) counts.retried += 1;
}

/** Whether an attempt was charged before the last one, in which the job may have been cancelled or have expired. */
function wasRetried({ ending }: JobEvent): boolean {
  if (!ending) return false;
  const { state, worker_id, attempts } = ending;
  const isLastCharged = state === 'failed' || worker_id === null;
  return (isLastCharged ? attempts - 1 : attempts) > 0;
}

/** Counts requests that failed and that the gateway did not ask for again: they are over. */
export function countDecided(core: Core): void {
  for (const job of core.requests.takeDecided()) {
    const outcome = core.requests.isCallerGone(job.id) ? 'cancelled' : job.outcome;
    core.counts.change(job.config_id, false).settled.waiting[outcome] += 1;
    decidedRequest(core, job, outcome);
  }
}

/** Counts a submission that was turned away, for which there is no job to emit events for. */
export function countRejected(core: Core, configId: string): void {
  const counts = core.counts.change(configId, true);
  counts.submitted.stored += 1;
  counts.settled.stored.rejected += 1;
}

/** Refusals that a larger fleet would have avoided. */
const TURNED_AWAY: ReadonlySet<RefusalReason> = new Set(['no_worker', 'no_slot', 'queue_full', 'deadline']);

type Counter = (counts: PoolCounts, event: JobEvent, core: Core) => void;

const COUNTERS: Partial<Record<JobEvent['step'], Counter>> = {
  submitted: (counts, { job }) => {
    if (job.mode === 'stored' || !job.is_repeat) counts.submitted[job.mode] += 1;
    if (isBatchWork(job)) counts.submitted_in_background += 1;
  },
  // A retried job counts as submitted once more.
  retried: (counts) => {
    counts.submitted.stored += 1;
  },
  dispatched: (counts, { job, at, isFirst }) => {
    counts.dispatches += 1;
    if (isFirst) observe(counts.queue_wait, QUEUE_WAIT_BOUNDS, at - submittedAt(job));
  },
  settled: (counts, event, core) => {
    if (event.ending?.state === 'succeeded') succeeded(counts, event, core);
    else failed(counts, event, core);
  },
  cancelled: (counts, { job }) => {
    counts.settled[job.mode].cancelled += 1;
    if (job.state === 'leased') counts.attempts.cancelled += 1;
  },
  expired: (counts, { job }) => {
    counts.settled[job.mode].expired += 1;
    if (job.state === 'leased') counts.attempts.expired += 1;
  },
  refused: (counts, { job, refusal }) => {
    counts.settled[job.mode].rejected += 1;
    if (refusal !== undefined && TURNED_AWAY.has(refusal)) counts.turned_away += 1;
  },
  attempt_failed: (counts) => {
    counts.attempts.failed += 1;
  },
  lease_expired: (counts) => {
    counts.attempts.lease_expired += 1;
  },
  released: (counts, event, core) => {
    counts.releases[event.reason ?? 'returned'] += 1;
    released(counts, event, core);
  },
  returned: (counts, event, core) => {
    counts.releases.returned += 1;
    released(counts, event, core);
  },
  refused_stale: (counts) => {
    counts.fence_refusals += 1;
  },
};

function succeeded(counts: PoolCounts, { job, at, timing, usage }: JobEvent, core: Core): void {
  counts.settled[job.mode].succeeded += 1;
  counts.attempts.succeeded += 1;
  const submitted = submittedAt(job);
  observe(counts.duration, DURATION_BOUNDS, at - submitted);
  if (job.leased_at !== null) observe(counts.run, DURATION_BOUNDS, at - job.leased_at);
  const firstToken = firstTokenAt(job, at, timing);
  if (firstToken !== null) {
    observe(counts.first_token, FIRST_TOKEN_BOUNDS, firstToken - submitted);
    if (job.mode === 'waiting') observe(counts.live_first_token, FIRST_TOKEN_BOUNDS, firstToken - submitted);
    const more = (usage?.completion_tokens ?? 0) - 1;
    if (more > 0) observe(counts.per_token, PER_TOKEN_BOUNDS, (at - firstToken) / more);
  }
  if (usage !== undefined) {
    counts.prefix_hits.predicted += predictedTokens(core, job, usage);
    counts.prefix_hits.seen += seenTokens(usage);
  }
}

function failed(counts: PoolCounts, { job, ending }: JobEvent, core: Core): void {
  if (job.mode === 'waiting' && ending?.error?.retryable) {
    const { id, config_id, submitted_at } = job;
    core.requests.addUndecided({ id, config_id, submitted_at, outcome: 'failed' });
  } else counts.settled[job.mode].failed += 1;
}

/**
 * Counts a release. If a relay was to carry the answer, the gateway asks again; other jobs wait again by themselves.
 */
function released(counts: PoolCounts, { job }: JobEvent, core: Core): void {
  counts.attempts.released += 1;
  if (job.mode === 'stored' || job.reply !== null) return;
  const { id, config_id, submitted_at } = job;
  core.requests.addUndecided({ id, config_id, submitted_at, outcome: 'rejected' });
}
