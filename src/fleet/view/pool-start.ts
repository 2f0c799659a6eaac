import type { LaunchRow, PoolScaling, ScalingSummary } from '../../protocol/index.ts';
import type { PoolSpec } from '../../scheduler/spec.ts';
import type { PoolStart, SessionShare } from '../rpc.ts';
import { percent, span } from './words.ts';

/** If `stopped`, a caller is asked to try again after this many s, unless it is known when that ends. */
const ASK_AGAIN_SECONDS = 60;
const LONGEST_SECONDS = 3600;

/** The scheduler's report of itself, and of its pools by their ids. */
export interface Scaling {
  summary: ScalingSummary;
  pools: ReadonlyMap<string, PoolScaling>;
}

export interface StartFacts {
  launches: readonly LaunchRow[];
  sessions: readonly SessionShare[];
  /** Models by the pool that last served them. */
  known: readonly { id: string; config_id: string }[];
  /** The scaling of all pools; null: nothing was decided yet. */
  scaling: Scaling | null;
  /** Ids of workers that were started before their pool's settings were changed. */
  outdated: ReadonlySet<string>;
}

/** Returns what callers may expect of a pool that the scheduler starts workers for. @param now epoch ms */
export function poolStart(config_id: string, spec: PoolSpec, facts: StartFacts, now: number): PoolStart {
  const served = facts.known.flatMap((one) => (one.config_id === config_id ? one.id : []));
  const isComing = (one: LaunchRow) => one.config_id === config_id && !facts.outdated.has(one.name);
  const launch = nearestLaunch(facts.launches.filter(isComing));
  const own = facts.sessions.filter((session) => session.config_id === config_id);
  const outdated = own.flatMap(({ worker_id }) => (facts.outdated.has(worker_id) ? worker_id : []));
  const isServed = own.some(({ worker_id, state }) => state !== 'draining' && !facts.outdated.has(worker_id));
  return {
    config_id,
    names: [
      ...new Set([...served, spec.model, ...spec.served_names, ...spec.adapters.map(({ name }) => name)]),
    ],
    ...stateOf(spec, launch, isServed, whyNot(config_id, spec, facts.scaling) ?? noRoom(spec, outdated)),
    progress: launch?.loading?.progress ?? null,
    wait_ms: spec.start_wait * 1000,
    retry_after_seconds: secondsUntil(facts.scaling?.pools.get(config_id)?.breaker?.until ?? null, now),
    outdated,
  };
}

function stateOf(
  { batch_only }: PoolSpec,
  launch: LaunchRow | null,
  isServed: boolean,
  whyNot: string | null,
): Pick<PoolStart, 'state' | 'text'> {
  if (isServed) return { state: 'ready', text: 'a worker takes jobs' };
  if (batch_only)
    return { state: 'stopped', text: 'it takes jobs and batches alone, for which workers are started' };
  if (launch) return { state: 'starting', text: `starting a worker: ${startOf(launch)}` };
  if (whyNot !== null) return { state: 'stopped', text: whyNot };
  return { state: 'scaled_to_zero', text: 'starting a worker' };
}

/** Says why no worker is launched, a clause; null: nothing forbids it. */
function whyNot(configId: string, { max }: PoolSpec, scaling: Scaling | null): string | null {
  if (max === 0) return 'the fleet allows none of it';
  return heldBack(scaling?.pools.get(configId)) ?? scaling?.summary.budget_reached ?? null;
}

/** Returns why no worker starts where the only one that the pool may have keeps older settings, or null. */
function noRoom({ max }: PoolSpec, outdated: readonly string[]): string | null {
  if (max > 1 || outdated.length === 0) return null;
  return 'its settings were changed, and max leaves no room for a worker with the new ones beside the one that serves';
}

/** Says what keeps the scheduler from starting workers of a pool, a clause; null: nothing about the pool itself. */
export function heldBack(scaling: PoolScaling | null | undefined): string | null {
  if (scaling?.control === 'paused') return 'an operator has paused it';
  if (scaling?.control === 'drained') return 'an operator has drained it';
  return scaling?.breaker?.text ?? null;
}

function secondsUntil(at: number | null, now: number): number {
  if (at === null) return ASK_AGAIN_SECONDS;
  return Math.min(LONGEST_SECONDS, Math.max(1, Math.ceil((at - now) / 1000)));
}

/**
 * The states of a launch that is not ready yet, the nearest to ready first. `ready` is last: a connection tells more.
 */
const ON_THE_WAY: LaunchRow['state'][] = ['registered', 'accepted', 'requested', 'intended', 'ready'];

/** Returns the launch that will be ready first, or null if none is on its way. */
export function nearestLaunch(launches: readonly LaunchRow[]): LaunchRow | null {
  const [first] = launches
    .filter(({ state }) => ON_THE_WAY.includes(state))
    .sort((a, b) => rankOf(a) - rankOf(b));
  return first ?? null;
}

function rankOf({ state, loading }: LaunchRow): number {
  return ON_THE_WAY.indexOf(state) - (loading?.progress ?? 0) / 2;
}

/**
 * Says how far a start has come: "loading 62 %, usually 3 min". Callers read it too, so it does not name the provider.
 */
export function startOf(launch: LaunchRow): string {
  const { ready_expected_at, intended_at } = launch;
  const usually = ready_expected_at === null ? '' : `, usually ${span(ready_expected_at - intended_at)}`;
  return stepOf(launch) + usually;
}

function stepOf({ state, loading }: LaunchRow): string {
  if (loading) return loading.progress === null ? 'loading' : `loading ${percent(loading.progress)}`;
  if (state === 'intended' || state === 'requested') return 'waiting for a machine';
  return state === 'ready' ? 'connecting' : 'its container starts';
}
