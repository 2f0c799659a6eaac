import {
  type LaunchRow,
  listNames,
  type PoolRow,
  type PoolScaling,
  reservedSlots,
  type ScalingSummary,
  shortName,
  type Waiting,
  type WorkerRow,
  waitsFor,
  workerName,
} from '../../protocol/index.ts';
import type { PoolAsking } from '../rpc.ts';
import { heldBack, nearestLaunch, startOf } from './pool-start.ts';
import { counted, percent, perSecond } from './words.ts';
import { atWork, doing, isReady, startTimes } from './worker-row.ts';

/** A launcher that was silent for longer than this, ms, carries no order out. */
const SILENT_MS = 60_000;

/** The workers, launches and scaling that belong to a pool, beside the facts of the pool itself. */
export interface OfPool {
  workers: readonly WorkerRow[];
  launches: readonly LaunchRow[];
  scaling: PoolScaling | null;
  /** The scaling of the whole fleet; null: no fleet's file was applied. */
  fleet: ScalingSummary | null;
}

type Asking = Omit<PoolAsking, 'config_id'>;
type Standing = Pick<PoolRow, 'config_id' | 'ready_workers' | 'busy_slots' | 'slots' | 'now'>;

/**
 * Returns what work for a pool waits for, until when, and what can be done about it. Jobs, lines of batches and the
 * pool itself all get their answer here. @param now epoch ms
 */
export function whyWaiting(pool: Standing, of: OfPool, asking: Asking, now: number): Waiting {
  if (pool.ready_workers === 0) return whyNoneReady(pool.config_id, of, now);
  const unserved = unservedModel(pool, of, asking);
  if (unserved) return unserved;
  if (pool.busy_slots >= pool.slots) return busy(pool, of);
  const paused = of.workers.find(({ state }) => state === 'paused');
  if (paused) {
    const clause = `${workerName(paused.worker_id)} takes no jobs for now: ${backlogOf(paused)}`;
    return waitsFor('paused', clause);
  }
  const kept = reservedSlots(pool.slots);
  if (asking.is_batch && pool.slots - pool.busy_slots <= kept) {
    const clause = `batch work leaves ${kept} of ${pool.slots} slots free for requests, and the others are busy`;
    return waitsFor('batch_room', clause, { advice: moreWorkers(pool, of) });
  }
  if (of.workers.every(({ state, engine_asleep }) => !isReady(state) || engine_asleep === true)) {
    return waitsFor('asleep', 'its engine sleeps while another one has the GPU that they share');
  }
  const clause = 'slots are free, but what waits is tried again later, or no worker meets its deadline';
  return waitsFor('turn', clause);
}

function unservedModel(pool: Standing, of: OfPool, { model }: Asking): Waiting | null {
  const { workers, scaling } = of;
  if (model === null || model === 'default' || model === pool.config_id) return null;
  const ready = workers.filter(({ state }) => isReady(state));
  const models = [...new Set(ready.flatMap((one) => one.models))];
  if (models.length === 0) return null;
  if (models.includes(model)) {
    const able = ready.filter((one) => one.models.length === 0 || one.models.includes(model));
    const isFull =
      able.length < ready.length && able.every(({ running, slots }) => (running ?? 0) >= (slots ?? 0));
    const advice = moreWorkers(pool, of);
    return isFull
      ? waitsFor('busy', `all workers that serve "${shortName(model)}" are busy`, { advice })
      : null;
  }
  const clause = `the workers of the pool "${pool.config_id}" serve ${listNames(models)}, and not "${shortName(model)}"`;
  const launch = nearestLaunch(of.launches.filter(({ state }) => state !== 'ready'));
  // The worker that is starting may serve the model, since the pool's settings were changed.
  if (launch)
    return waitsFor('unserved_model', `${clause}; another worker is being started: ${startOf(launch)}`);
  const advice = scaling?.rollout?.is_stuck
    ? stuckAdvice(pool.config_id)
    : 'Start a worker for it, or cancel what waits and name a model that is served.';
  return waitsFor('unserved_model', clause, { advice });
}

/** Says what an operator can do about a worker that keeps its version for want of room. */
export function stuckAdvice(configId: string): string {
  return `Make room for one more worker, allow "update: {unavailable: 1}" in the fleet's file, or replace the one that serves with a pause: "worker-vllm fleet drain ${configId}", then "worker-vllm fleet resume ${configId}".`;
}

function busy(pool: Standing, of: OfPool): Waiting {
  const { submitted, succeeded, failed, cancelled, expired } = pool.now;
  const ended = succeeded + failed + cancelled + expired;
  const rates = `${perSecond(submitted)} come, ${perSecond(ended)} end`;
  const slots = pool.slots === 1 ? 'its only slot is' : `all ${pool.slots} slots are`;
  return waitsFor('busy', `${slots} busy: ${rates}`, { advice: moreWorkers(pool, of) });
}

/** Says how the pool gets more slots; returns null if more are starting, or the pool has all that it may have. */
function moreWorkers({ config_id }: Standing, { scaling }: OfPool): string | null {
  if (scaling === null) return `Another worker with CASOLA_CONFIG_ID=${config_id} takes its share.`;
  if (scaling.starting > 0) return null;
  return scaling.ready < scaling.max ? startsOne(config_id, 'one more') : null;
}

function startsOne(configId: string, what: string): string {
  return `"worker-vllm fleet launch ${configId}" starts ${what} now.`;
}

/** Says why no worker is ready: "its only worker loads, 62 %, usually 3 min" or "it has no worker". */
export function whyNoneReady(configId: string, of: OfPool, now: number): Waiting {
  const { workers, scaling } = of;
  const there = workers.filter(({ state }) => atWork(state));
  if (there.length === 0 && scaling) return whyNotLaunched(configId, scaling, of, now);
  const [nearest] = [...(there.length > 0 ? there : workers)].sort((a, b) => rankOf(a) - rankOf(b));
  const start = `Start a worker with CASOLA_CONFIG_ID=${configId}.`;
  if (!nearest) return waitsFor('no_worker', 'it has no worker', { advice: start });
  const name = workerName(nearest.worker_id);
  if (there.length === 0) {
    const clause = `it has no worker; the last one, ${name}, ${doing(nearest, now)}`;
    return waitsFor('no_worker', clause, { advice: nearest.error?.advice ?? start });
  }
  const clause =
    there.length === 1
      ? `its only worker ${doing(nearest, now)}`
      : `none of its ${there.length} workers is ready: ${name} ${doing(nearest, now)}`;
  const code = CODES[nearest.state] ?? 'no_worker';
  const left = startTimes(nearest, now)?.left ?? 0;
  return waitsFor(code, clause, {
    until: left > 0 ? now + left : null,
    advice: code === 'no_worker' || code === 'draining' ? (nearest.error?.advice ?? start) : null,
  });
}

const CODES: Partial<Record<WorkerRow['state'], Waiting['code']>> = {
  paused: 'paused',
  loading: 'start',
  starting: 'start',
  draining: 'draining',
};

/** Says why a pool that the scheduler starts workers for has none. */
function whyNotLaunched(configId: string, scaling: PoolScaling, of: OfPool, now: number): Waiting {
  const launch = nearestLaunch(of.launches);
  if (launch) {
    const launcher = missingLauncher(launch, of.fleet, now);
    if (launcher) return launcher;
    const until = launch.ready_expected_at;
    return waitsFor('launch', `a worker is being started: ${startOf(launch)}`, {
      until: until !== null && until > now ? until : null,
    });
  }
  const none = 'it has no worker, and none is started';
  const held = heldBack(scaling);
  if (held !== null) {
    return waitsFor('held_back', `${none}: ${held}`, {
      until: scaling.breaker?.until ?? null,
      advice: `Mend the cause, then "worker-vllm fleet resume ${configId}" starts workers again.`,
    });
  }
  if (scaling.max === 0) {
    return waitsFor('held_back', `${none}: its max is 0`, {
      advice: "Raise its max in the fleet's file.",
    });
  }
  if (of.fleet?.budget_reached) {
    return waitsFor('held_back', `${none}: ${of.fleet.budget_reached}`, {
      advice: "Raise the budget in the fleet's file, or drain what costs most.",
    });
  }
  const { batch_wait, decision } = scaling;
  if (batch_wait) {
    const lines = `${counted(batch_wait.lines, 'line')} of batches`;
    const clause = `${lines} are too little work to start a worker for: one is started when more waits, and in time for ${batch_wait.lines === 1 ? 'its' : 'their'} window`;
    return waitsFor('batch_start', clause, {
      until: batch_wait.until,
      advice: startsOne(configId, 'a worker'),
    });
  }
  if (of.fleet && !of.fleet.providers.some(({ driver }) => isHeard(driver, of.fleet, now))) {
    return waitsFor('no_launcher', 'it has no worker, and no launcher is connected that starts one', {
      advice: START_LAUNCHER,
    });
  }
  if (decision === null) return waitsFor('launch', 'it has no worker yet');
  return waitsFor('launch', `it has no worker yet: ${decision.text}`, {
    advice: scaling.wanted === 0 ? startsOne(configId, 'a worker') : null,
  });
}

/** Says that no launcher makes the machine that was ordered; returns null if a launcher does. */
function missingLauncher(launch: LaunchRow, fleet: ScalingSummary | null, now: number): Waiting | null {
  if (launch.state !== 'intended' && launch.state !== 'requested') return null;
  const provider = fleet?.providers.find(({ name }) => name === launch.provider);
  if (provider === undefined || isHeard(provider.driver, fleet, now)) return null;
  const clause = `a machine is ordered, and no launcher with the driver ${provider.driver} is connected that makes it`;
  return waitsFor('no_launcher', clause, { advice: START_LAUNCHER });
}

const START_LAUNCHER =
  'Start one where the machines, or the keys of the provider, are: worker-vllm launcher.';

function isHeard(driver: string, fleet: ScalingSummary | null, now: number): boolean {
  const launchers = fleet?.launchers ?? [];
  return launchers.some(({ drivers, seen_at }) => drivers.includes(driver) && now - seen_at <= SILENT_MS);
}

/** Returns the reason for an engine's backlog, as a clause. */
export function backlogOf({ engine_waiting, kv_cache_usage }: WorkerRow): string {
  const parts = [
    ...(engine_waiting
      ? [`${engine_waiting === 1 ? '1 request waits' : `${engine_waiting} requests wait`} in its engine`]
      : []),
    ...(kv_cache_usage !== null ? [`its KV cache is ${percent(kv_cache_usage)} full`] : []),
  ];
  return parts.length > 0 ? parts.join(', ') : 'its engine has a backlog';
}

const NEAREST_TO_READY = ['paused', 'loading', 'starting', 'late', 'draining', 'error', 'lost', 'stopped'];

function rankOf({ state, progress }: WorkerRow): number {
  return NEAREST_TO_READY.indexOf(state) - (progress ?? 0) / 2;
}
