import {
  DURATION_BOUNDS,
  FIRST_TOKEN_BOUNDS,
  PER_TOKEN_BOUNDS,
  PREFIX_MATCH_BOUNDS,
  QUEUE_WAIT_BOUNDS,
} from '../../protocol/index.ts';
import type { JobEvent, OtherEvent } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import { firstTokenAt, isBatchWork, submittedAt } from '../job.ts';
import { type RefusalReason, SLOT_AMOUNTS, type UsageAmounts, type UsageKey } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import type { Sql } from '../store/ports.ts';
import { rows } from '../store/ports.ts';
import { newCounts, observe, observeMs, type PoolCounts, type TenantCost } from './pool-counts.ts';
import { WriteBehind } from './write-behind.ts';

/** The most pools counted by name, since a submission may name any pool; the others are counted together as `other`. */
const MOST_POOLS = 200;
const OTHER_POOLS = 'other';
/** The most tenants of one pool counted by name; the others are counted together as `other`. */
const MOST_TENANTS = 50;
const OTHER_TENANTS = 'other';

/** A pool that had no job for this many ms gives its place to a new one. */
const IDLE_MS = 24 * 3600 * 1000;

interface Place {
  counts: PoolCounts;
  /** The last change, epoch ms. */
  changedAt: number;
}

/** Counts what happened to the jobs of each pool since the queue was made; one row per pool. */
export class Counts extends WriteBehind implements Projection {
  readonly #core: Core;
  readonly #places = new Map<string, Place>();
  /** Pools whose row is older than their counts in memory. */
  readonly #changed = new Set<string>();
  readonly #dropped = new Set<string>();
  /** The costs in each pool's counts, by tenant. */
  readonly #costs = new WeakMap<PoolCounts, Map<string, TenantCost>>();

  constructor(core: Core) {
    super(core, 'counts');
    this.#core = core;
    for (const { config_id, counts, changed_at } of readCounts(core.sql)) {
      // A count that is newer than the row begins now.
      const known: PoolCounts = { ...newCounts(), ...JSON.parse(counts) };
      this.#places.set(config_id, { counts: known, changedAt: changed_at });
    }
  }

  /** Counts what happened, by the job's pool. A request for an unknown model has no pool. */
  on(event: JobEvent): void {
    const { job, step } = event;
    const count = job.config_id === '' ? undefined : COUNTERS[step];
    if (count === undefined) return;
    const counts = this.#change(job.config_id, job.mode === 'stored');
    count(counts, event, this.#core);
    if (wasRetried(event)) counts.retried += 1;
  }

  onOther(event: OtherEvent): void {
    switch (event.kind) {
      case 'registered': {
        const { config_id, capacity } = event.worker.session;
        this.#change(config_id, true).slots_per_worker = capacity;
        return;
      }
      case 'turned_away': {
        const counts = this.#change(event.config_id, true);
        counts.submitted.stored += 1;
        counts.settled.stored.rejected += 1;
        return;
      }
      case 'decided':
        this.#change(event.config_id, false).settled.waiting[event.outcome] += 1;
    }
  }

  /** Returns the counts of a pool, to be changed. @param isStored whether a stored job changes them */
  #change(configId: string, isStored: boolean): PoolCounts {
    const name = this.nameOf(configId);
    const now = this.ports.now();
    let place = this.#places.get(name);
    if (!place) {
      this.#dropIdle(name);
      place = { counts: newCounts(), changedAt: now };
      this.#places.set(name, place);
      this.#dropped.delete(name);
    }
    place.changedAt = now;
    this.#changed.add(name);
    this.changed(isStored);
    return place.counts;
  }

  /**
   * Counts tokens and slot time, as the usage of a token counts them.
   * @param isStored whether a stored job used them
   */
  used({ config_id, tenant }: UsageKey, amounts: Partial<UsageAmounts>, isStored: boolean): void {
    if (config_id === '') return;
    const counts = this.#change(config_id, isStored);
    counts.tokens.input += amounts.input ?? 0;
    counts.tokens.output += amounts.output ?? 0;
    counts.tokens.cached_input += amounts.cached ?? 0;
    counts.tokens.reasoning += amounts.reasoning ?? 0;
    counts.tokens.wasted += amounts.wasted ?? 0;
    counts.estimated += amounts.estimated_requests ?? 0;
    if (amounts.slot_ms === undefined) return;
    const cost = this.#costOf(counts, tenant);
    for (const name of SLOT_AMOUNTS) cost[name] += amounts[name] ?? 0;
  }

  /** Returns the cost of this tenant, or the common one of all tenants beyond MOST_TENANTS. */
  #costOf(counts: PoolCounts, tenant: string): TenantCost {
    const costs = this.#costs.get(counts) ?? new Map(counts.cost.map((cost) => [cost.tenant, cost]));
    this.#costs.set(counts, costs);
    const name = costs.has(tenant) || costs.size < MOST_TENANTS ? tenant : OTHER_TENANTS;
    const known = costs.get(name);
    if (known) return known;
    const fresh = { tenant: name, slot_ms: 0, unpriced_slot_ms: 0, nanodollars: 0 };
    counts.cost.push(fresh);
    costs.set(name, fresh);
    return fresh;
  }

  /** Returns the name that a pool is counted under: its own, or `other`. */
  nameOf(configId: string): string {
    if (this.#places.has(configId) || this.#places.size < MOST_POOLS) return configId;
    return this.#idlest() === null ? OTHER_POOLS : configId;
  }

  /** Returns the counts under this name, or null if there are none. */
  of(name: string): PoolCounts | null {
    return this.#places.get(name)?.counts ?? null;
  }

  /** Returns the names under which jobs were counted within a day. */
  recent(): string[] {
    const since = this.ports.now() - IDLE_MS;
    return [...this.#places].filter(([, { changedAt }]) => changedAt > since).map(([name]) => name);
  }

  protected override save(): void {
    const { sql } = this.ports;
    for (const config_id of this.#changed) {
      const { counts, changedAt } = this.#places.get(config_id)!;
      writeCounts(sql, { config_id, counts: JSON.stringify(counts), changed_at: changedAt });
    }
    for (const name of this.#dropped) deleteCounts(sql, name);
  }

  protected override afterSave(isSaved: boolean): void {
    if (!isSaved) return;
    this.#changed.clear();
    this.#dropped.clear();
  }

  /** Forgets the longest idle pool if a new one would find no place. */
  #dropIdle(name: string): void {
    if (this.#places.size < MOST_POOLS || name === OTHER_POOLS) return;
    const idlest = this.#idlest();
    if (idlest === null) return;
    this.#places.delete(idlest);
    this.#changed.delete(idlest);
    this.#dropped.add(idlest);
  }

  /** Returns the pool that has been idle longest, or null if none has been idle for IDLE_MS. */
  #idlest(): string | null {
    let [idlest, since]: [string | null, number] = [null, this.ports.now() - IDLE_MS];
    for (const [name, { changedAt }] of this.#places) {
      if (changedAt > since || name === OTHER_POOLS) continue;
      [idlest, since] = [name, changedAt];
    }
    return idlest;
  }
}

/** Whether an attempt was charged before the last one, in which the job may have been cancelled or have expired. */
function wasRetried({ ending }: JobEvent): boolean {
  if (!ending) return false;
  const { state, worker_id, attempts } = ending;
  const isLastCharged = state === 'failed' || worker_id === null;
  return (isLastCharged ? attempts - 1 : attempts) > 0;
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
    if (isFirst) observeMs(counts.queue_wait, QUEUE_WAIT_BOUNDS, at - submittedAt(job));
  },
  settled: (counts, event, core) => {
    if (event.ending?.state === 'succeeded') succeeded(counts, event);
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

function succeeded(counts: PoolCounts, { job, at, timing, usage, cached }: JobEvent): void {
  counts.settled[job.mode].succeeded += 1;
  counts.attempts.succeeded += 1;
  const submitted = submittedAt(job);
  observeMs(counts.duration, DURATION_BOUNDS, at - submitted);
  if (job.leased_at !== null) observeMs(counts.run, DURATION_BOUNDS, at - job.leased_at);
  const firstToken = firstTokenAt(job, at, timing);
  if (firstToken !== null) {
    observeMs(counts.first_token, FIRST_TOKEN_BOUNDS, firstToken - submitted);
    if (job.mode === 'waiting')
      observeMs(counts.live_first_token, FIRST_TOKEN_BOUNDS, firstToken - submitted);
    const more = (usage?.completion_tokens ?? 0) - 1;
    if (more > 0) observeMs(counts.per_token, PER_TOKEN_BOUNDS, (at - firstToken) / more);
  }
  counts.prefix_hits.predicted += cached?.predicted ?? 0;
  counts.prefix_hits.seen += cached?.seen ?? 0;
  if (job.extras.prefix !== undefined && cached !== undefined && usage?.prompt_tokens)
    observe(counts.prefix_match, PREFIX_MATCH_BOUNDS, cached.predicted / usage.prompt_tokens);
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

/** The row with one pool's counts. */
interface CountsRow {
  config_id: string;
  /** The pool's counts, JSON of PoolCounts. */
  counts: string;
  /** The time of the last change of the counts, epoch ms. */
  changed_at: number;
}

export function readCounts(sql: Sql): CountsRow[] {
  return rows(sql, `SELECT config_id, counts, changed_at FROM counts`);
}

function writeCounts(sql: Sql, { config_id, counts, changed_at }: CountsRow): void {
  sql.exec(
    `INSERT OR REPLACE INTO counts (config_id, counts, changed_at) VALUES (?, ?, ?)`,
    config_id,
    counts,
    changed_at,
  );
}

function deleteCounts(sql: Sql, configId: string): void {
  sql.exec(`DELETE FROM counts WHERE config_id = ?`, configId);
}
