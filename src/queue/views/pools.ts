import { targetsOf } from '../../aliases/resolve.ts';
import { type PoolSharing, SHARES_TOLD } from '../../protocol/index.ts';
import { poolSlots, slotsForBatches } from '../dispatch/batch-work.ts';
import { Charges } from '../projections/charges.ts';
import { Counts } from '../projections/counts.ts';
import type { BatchSlots, Pending, PoolNow } from '../rpc.ts';
import { livePool } from '../state/pools.ts';
import type { Core } from '../state/state.ts';
import { freeSlots, isLeaving, type Worker } from '../state/worker.ts';
import { oldestPending } from '../store/pending-table.ts';

/** Bounds the priorities in which the oldest job is looked for, the lowest first: each takes a statement. */
const MOST_PRIORITIES = 50;

/** Returns the present state of every pool that has workers, jobs or counts, by the name it is counted under. */
export function poolsNow(core: Core): Map<string, PoolNow> {
  const pools = new Map<string, PoolNow>();
  const counts = core.projections.get(Counts);
  const of = (configId: string) => {
    const name = counts.nameOf(configId);
    const known = pools.get(name) ?? nothing();
    pools.set(name, known);
    return known;
  };
  for (const name of counts.recent()) of(name);
  for (const worker of core.workers.all()) addWorker(core, of(worker.session.config_id), worker);
  for (const [configId, priorities] of core.stored.pending.priorities()) {
    addStored(core, of(configId), configId, priorities);
  }
  for (const [, jobs] of core.waiting.line.byModel()) {
    for (const { config_id, priority, submitted_at, held } of jobs) {
      if (config_id === '' || held !== null) continue;
      const now = of(config_id);
      line(now, priority).waiting += 1;
      now.oldest_since.waiting = earlier(now.oldest_since.waiting, submitted_at);
    }
  }
  for (const [name, now] of pools) finish(now, counts.of(name)?.slots_per_worker ?? null);
  return pools;
}

/** Returns the present state of one pool, or an empty state. */
export function poolNow(core: Core, configId: string): PoolNow {
  const counts = core.projections.get(Counts);
  const name = counts.nameOf(configId);
  const slots_per_worker = counts.of(name)?.slots_per_worker ?? null;
  return poolsNow(core).get(name) ?? { ...nothing(), slots_per_worker };
}

/**
 * Returns how many workers could run all pending and running jobs at once. One is the least for which that can be said.
 */
function wantedWorkers(jobs: number, slotsPerWorker: number | null): number {
  return Math.ceil(jobs / Math.max(1, slotsPerWorker ?? jobs));
}

function addWorker(core: Core, now: PoolNow, worker: Worker): void {
  const { session, running } = worker;
  now.workers[isLeaving(worker) ? 'draining' : session.paused ? 'paused' : 'ready'] += 1;
  const free = freeSlots(worker);
  now.slots.busy += running.size;
  now.slots.free += free;
  now.slots.paused += Math.max(0, session.capacity - running.size - free);
  for (const jobId of running.keys()) now.running[core.waiting.find(jobId) ? 'waiting' : 'stored'] += 1;
}

function addStored(
  core: Core,
  now: PoolNow,
  configId: string,
  priorities: ReadonlyMap<number, number>,
): void {
  for (const [priority, jobs] of priorities) {
    // No worker could run the jobs that are held back.
    const ready = jobs - core.admission.heldOfPool(configId, priority);
    if (ready > 0) line(now, priority).stored += ready;
  }
  const lowest = [...priorities.keys()].sort((one, other) => one - other).slice(0, MOST_PRIORITIES);
  for (const priority of lowest) {
    now.oldest_since.stored = earlier(now.oldest_since.stored, oldestPending(core.sql, configId, priority));
  }
}

function finish(now: PoolNow, lastKnown: number | null): void {
  now.pending.sort((one, other) => other.priority - one.priority);
  const { ready, paused, draining } = now.workers;
  const workers = ready + paused + draining;
  const slots = now.slots.busy + now.slots.free + now.slots.paused;
  now.slots_per_worker = workers > 0 ? slots / workers : lastKnown;
  const jobs = now.pending.reduce((sum, { waiting, stored }) => sum + waiting + stored, now.slots.busy);
  now.wanted_workers = wantedWorkers(jobs, now.slots_per_worker);
}

function line(now: PoolNow, priority: number): Pending {
  const known = now.pending.find((one) => one.priority === priority);
  if (known) return known;
  const added = { priority, waiting: 0, stored: 0 };
  now.pending.push(added);
  return added;
}

function earlier(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other;
  return Math.min(one, other);
}

function nothing(): PoolNow {
  return {
    pending: [],
    oldest_since: { waiting: null, stored: null },
    running: { waiting: 0, stored: 0 },
    workers: { ready: 0, paused: 0, draining: 0 },
    slots: { busy: 0, free: 0, paused: 0 },
    slots_per_worker: null,
    wanted_workers: 0,
  };
}

/**
 * Returns the pools that run batch lines for these models, and the slots that they have for it, in the models' order.
 */
export function batchSlots(core: Core, models: readonly (string | null)[]): BatchSlots[] {
  return models.map((model) => {
    const named = core.aliases.has(model) ? targetsOf(core.aliases.table, model) : [model];
    const choice = named.map((one) => livePool(core, one)).find((choice) => choice?.kind === 'pool');
    if (choice?.kind !== 'pool') return { config_id: null, slots: 0 };
    const { config_id } = choice;
    return { config_id, slots: slotsForBatches(poolSlots(core, config_id)) };
  });
}

/**
 * Shows fair share at work: for each pool, the tenant that goes next, each tenant's waiting jobs and the tokens that it
 * was served in the last hour.
 */
export function sharing(core: Core): PoolSharing[] {
  core.stored.pending.load();
  const now = core.now();
  const pools = new Set([...core.backlog.lines().keys(), ...core.projections.get(Charges).served.pools(now)]);
  return [...pools]
    .sort()
    .map((configId) => sharingOf(core, configId, now))
    .filter(({ config_id, tenants }) => config_id !== '' && tenants.length > 0);
}

function sharingOf({ backlog, projections }: Core, config_id: string, now: number): PoolSharing {
  const had = new Map(
    projections
      .get(Charges)
      .served.of(config_id, now)
      .map(({ tenant, tokens }) => [tenant, tokens]),
  );
  const waiting = new Map<string | null, number>();
  let next: { tenant: string | null; priority: number } | null = null;
  for (const [priority, line] of backlog.lines().get(config_id) ?? []) {
    for (const { tenant, jobs } of line.inOrder()) {
      if (next === null || priority > next.priority) next = { tenant, priority };
      waiting.set(tenant, (waiting.get(tenant) ?? 0) + jobs);
    }
  }
  const all = [...new Set([...waiting.keys(), ...had.keys()])].map((tenant) => ({
    tenant,
    waiting: waiting.get(tenant) ?? 0,
    tokens: had.get(tenant) ?? 0,
  }));
  all.sort((one, other) => Number(other.waiting > 0) - Number(one.waiting > 0) || other.tokens - one.tokens);
  return {
    config_id,
    next: next?.tenant ?? null,
    tokens: all.reduce((sum, { tokens }) => sum + tokens, 0),
    tenants: all.slice(0, SHARES_TOLD),
  };
}
