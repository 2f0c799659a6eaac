import {
  COST_STEP_MS,
  type Heartbeat,
  type LaunchRow,
  type PoolScaling,
  type ScalingSummary,
} from '../protocol/index.ts';
import type { Core } from './core.ts';
import { isEnding, isFinal, type LaunchRecord } from './launch.ts';
import { costOf, spentToday } from './launches.ts';
import type { ProviderSpec } from './provider-spec.ts';
import { rolloutOf, versionsOf } from './rollout-view.ts';
import type { AppliedSpec } from './rpc.ts';
import { isStarting } from './rule/capacity.ts';
import type { Decided, PoolDecided, QueueFacts, WorkersFigures } from './rule-types.ts';
import type { FleetSpec } from './spec.ts';
import { type SpotDay, spotWeek } from './spot-book.ts';
import type { Controls } from './state.ts';
import type { Versions } from './versions.ts';

/** The most ended launches that are shown. */
const MOST_ENDED = 100;
/** When a launcher was seen is shown as of the last full step, as costs are. */
const SEEN_STEP_MS = 10_000;
/** Launchers silent for longer than this many ms are not shown. */
const LAUNCHER_SHOWN_MS = 3_600_000;

/** The last decision, and since when each pool's text has been the same. */
export interface LastDecision {
  decided: Decided;
  texts: ReadonlyMap<string, { at: number; text: string }>;
}

/**
 * Returns a decision with since when each pool's text has been the same. @param changed the pools about which something
 * was decided
 */
export function lastDecision(
  decided: Decided,
  changed: ReadonlySet<string | undefined>,
  before: LastDecision | null,
  now: number,
): LastDecision {
  const texts = decided.pools.map(({ config_id, text }): [string, { at: number; text: string }] => {
    const known = before?.texts.get(config_id);
    const isKept = known && !changed.has(config_id) && saysNoMore(text, known.text);
    return [config_id, isKept ? known : { at: now, text }];
  });
  return { decided, texts: new Map(texts) };
}

/** Returns whether two texts differ in their numbers alone, which change all the time and are no news. */
function saysNoMore(text: string, before: string): boolean {
  const shape = (of: string) => of.replace(/(?<=\D)\d+(\.\d+)?/g, '#');
  return shape(before).startsWith(shape(text));
}

/** Returns the launches that may be alive, and the newest that have ended. */
export function launchRows(core: Core, last: LastDecision | null): LaunchRow[] {
  const now = core.now();
  const all = core.launches.launched();
  const shown = all
    .filter(isFinal)
    .sort((one, other) => other.state_at - one.state_at)
    .slice(0, MOST_ENDED);
  return [...all.filter((launch) => !isFinal(launch)), ...shown].map((launch) =>
    launchRow(
      launch,
      core.machines.byName.get(launch.name)?.heartbeat ?? null,
      expectedMs(launch, last),
      now,
    ),
  );
}

function launchRow(
  launch: LaunchRecord,
  heartbeat: Heartbeat | null,
  startMs: number | null,
  now: number,
): LaunchRow {
  const isOnItsWay = isStarting(launch);
  const { phase = null, progress = null } = heartbeat ?? {};
  const { machine, inputs, makes_room, host, order, missed_lists, missed_since, ...more } = launch;
  const { order_by_name, order_due_at, ordered_at, clear_at, ...shown } = more;
  return {
    ...shown,
    reason: inputs === '' ? launch.reason : `${launch.reason} (${inputs})`,
    cost: cents(costOf(launch, isFinal(launch) ? now : now - (now % COST_STEP_MS))),
    loading: isOnItsWay && heartbeat ? { phase, progress } : null,
    ready_expected_at: isOnItsWay && startMs !== null ? launch.intended_at + startMs : null,
  };
}

/** Below this many starts the rule assumes more time than any start of this pool took. */
const ENOUGH_STARTS = 3;

/** Returns the median time of the pool's starts, ms; null: too few were seen, and the page shows no guesses. */
function expectedMs(
  { config_id, provider, instance_type }: LaunchRecord,
  last: LastDecision | null,
): number | null {
  const pool = last?.decided.pools.find((one) => one.config_id === config_id);
  const machine = pool?.machines.find(
    (one) => one.provider === provider && one.instance_type === instance_type,
  );
  return machine && machine.start.count >= ENOUGH_STARTS ? machine.start.p50 * 1000 : null;
}

export interface Shown {
  applied: AppliedSpec;
  installation: string;
  providers: Readonly<Record<string, ProviderSpec>>;
  controls: Controls;
  versions: Versions;
  figures(workerIds: readonly string[]): WorkersFigures | null;
  pools: QueueFacts['pools'];
  last: LastDecision | null;
}

/** Returns the scaling of each pool of the spec, and of all of them together. */
export function scalingOf(core: Core, shown: Shown) {
  const { applied, installation, providers, controls, versions, figures, last } = shown;
  const now = core.now();
  const alive = core.launches.alive();
  const launched = Map.groupBy(core.launches.launched(), ({ config_id }) => config_id);
  const spent = spentToday(core.sql, alive, now - (now % COST_STEP_MS));
  const summary: ScalingSummary = {
    installation,
    applied_at: applied.applied_at,
    budget: {
      per_hour: applied.spec.budget.per_hour ?? null,
      per_day: applied.spec.budget.per_day ?? null,
    },
    price_per_hour: cents(priceOf(alive)),
    spent_today: cents([...spent.values()].reduce((sum, one) => sum + one, 0)),
    budget_reached: budgetReached(applied.spec.budget, last?.decided.stopped_by_budget ?? null),
    providers: Object.entries(providers).map(([name, { driver }]) => {
      return { name, driver, ...core.providers.standing(name) };
    }),
    launchers: core.providers
      .launchers()
      .filter(({ seen_at }) => now - seen_at <= LAUNCHER_SHOWN_MS)
      .map((launcher) => ({ ...launcher, seen_at: launcher.seen_at - (launcher.seen_at % SEEN_STEP_MS) })),
  };
  const spot = spotWeek(core.sql, alive, now - (now % COST_STEP_MS));
  const pools = Object.entries(applied.spec.pools).map(([id, pool]): [string, PoolScaling] => {
    const { min, max } = pool;
    const own = alive.filter(({ config_id }) => config_id === id);
    const decided = last?.decided.pools.find(({ config_id }) => config_id === id) ?? null;
    const scaling: PoolScaling = {
      wanted: decided?.wanted ?? null,
      min,
      max,
      ready: own.filter(({ state, name }) => state === 'ready' && core.machines.byName.get(name)?.session)
        .length,
      starting: own.filter(isStarting).length,
      draining: own.filter(isEnding).length,
      waiting: shown.pools.get(id)?.waiting ?? 0,
      price_per_hour: cents(priceOf(own)),
      spent_today: cents(spent.get(id) ?? 0),
      batch_wait: decided?.batch_wait ?? null,
      spot: spotOf(spot.get(id), decided),
      decision: last?.texts.get(id) ?? null,
      control: controls.of(id).control,
      breaker: breakerOf(decided),
      rollout: rolloutOf(versions.of(id), decided),
      versions: versionsOf(versions.of(id), launched.get(id) ?? [], figures),
    };
    return [id, scaling];
  });
  return { summary, pools: new Map(pools) };
}

/** Returns the price of each pool of the spec, US dollars an hour. */
export function pricesOf(core: Core, { pools }: FleetSpec): Map<string, number> {
  const alive = Map.groupBy(core.launches.alive(), ({ config_id }) => config_id);
  return new Map(Object.keys(pools).map((id) => [id, cents(priceOf(alive.get(id) ?? []))]));
}

/** Returns what a pool's spot machines did, compared with the on-demand machine that is tried first. */
function spotOf(week: SpotDay | undefined, decided: PoolDecided | null): PoolScaling['spot'] {
  if (!week) return null;
  const { lost, moved, repeated, hours, dollars } = week;
  const instead = decided?.machines.find(({ is_spot, price_per_hour }) => !is_spot && price_per_hour > 0);
  return { lost, moved, repeated, saved: instead ? cents(hours * instead.price_per_hour - dollars) : null };
}

function breakerOf(decided: PoolDecided | null): PoolScaling['breaker'] {
  return decided?.breaker ? { text: decided.breaker, until: null } : null;
}

function budgetReached(
  { per_hour, per_day }: FleetSpec['budget'],
  stopped: 'hour' | 'day' | null,
): string | null {
  if (stopped === null) return null;
  return stopped === 'hour'
    ? `the budget of $${per_hour} an hour is used up`
    : `the budget of $${per_day} a day is used up`;
}

function priceOf(launches: readonly LaunchRecord[]): number {
  return launches.reduce((sum, { price_per_hour }) => sum + price_per_hour, 0);
}

/** Rounds to a hundredth of a cent: sums of prices are not exact. */
function cents(dollars: number): number {
  return Math.round(dollars * 10_000) / 10_000;
}
