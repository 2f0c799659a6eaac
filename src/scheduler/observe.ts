import type { Core } from './core.ts';
import { DRIVERS } from './drivers.ts';
import { isFinal, type LaunchRecord } from './launch.ts';
import { spentToday } from './launches.ts';
import type { ProviderSpec } from './provider-spec.ts';
import type { AppliedSpec } from './rpc.ts';
import type {
  Answers,
  BacklogFacts,
  Demand,
  Observed,
  ObservedPool,
  ObservedVersions,
  PoolCounts,
  QueueFacts,
  WorkersFigures,
} from './rule-types.ts';
import { type Update, USUAL_UPDATE } from './spec.ts';
import type { Controls } from './state.ts';
import { lastProved, type Versions } from './versions.ts';

/** The spec used for a pool that is no longer in the fleet's file. */
const REMOVED: ObservedPool['spec'] = {
  slots: 1,
  min: 0,
  max: 0,
  wanted_wait: 30,
  utilization: 1,
  batch_only: false,
  machines: [],
};

export interface Known {
  /** The fleet's file; null: none is in force. */
  applied: AppliedSpec | null;
  providers: Readonly<Record<string, ProviderSpec>>;
  controls: Controls;
  versions: Versions;
  /** Returns what some workers did together lately; null: nothing is known. */
  figures(workerIds: readonly string[]): WorkersFigures | null;
  queue: QueueFacts;
  answers: Answers;
}

/** Gathers all facts that the rule decides by. */
export function observe(core: Core, known: Known): Observed {
  const { applied, providers, controls, versions, answers } = known;
  const now = core.now();
  const alive = core.launches.alive();
  const spent = spentToday(core.sql, alive, now);
  const outdated = outdatedIn(alive, versions);
  const dismissed = alive.filter(
    (launch) => controls.of(launch.config_id).control === 'drained' || outdated.includes(launch),
  );
  return {
    budget: applied?.spec.budget ?? {},
    spent_today: [...spent.values()].reduce((sum, one) => sum + one, 0),
    pools: poolsOf(core, known),
    providers: Object.entries(providers).map(([name, { max, driver }]) => ({
      name,
      max: max ?? null,
      is_fresh: core.providers.isFresh(name, now),
      prices: core.providers.prices(name),
      tells_prices: DRIVERS[driver].tellsPrices,
    })),
    launches: core.launches.launched(),
    machines: core.machines.byName,
    cordoned: answers.cordoned ?? {},
    dismissed: dismissed.map(({ id }) => id),
  };
}

/** Returns the launches with another version than their pools are to have. */
export function outdatedIn(launches: readonly LaunchRecord[], versions: Versions): LaunchRecord[] {
  return launches.filter(({ config_id, version }) => version !== versions.wanted(config_id));
}

function poolsOf(core: Core, known: Known): ObservedPool[] {
  const { applied, controls, queue, answers } = known;
  const launched = Map.groupBy(core.launches.launched(), ({ config_id }) => config_id);
  const specs = applied?.spec.pools ?? {};
  const now = core.now();
  const isKnown = queue.isKnown && answers.cordoned !== null && answers.backlog !== null;
  const demandIn = (id: string) => (isKnown ? demandOf(queue.pools.get(id), answers.backlog?.get(id)) : null);
  const named = Object.entries(specs).map(([config_id, spec]): ObservedPool => {
    const { control, forgiven_at, at_least } = controls.of(config_id);
    const floor = at_least && now < at_least.until ? Math.min(at_least.workers, spec.max) : 0;
    const isByHand = at_least !== null && floor > spec.min;
    return {
      config_id,
      spec: { ...spec, min: Math.max(spec.min, floor) },
      paused: control !== 'automatic',
      removed: false,
      by_hand_until: isByHand ? at_least.until : null,
      forgiven_at,
      versions: versionsIn(known, config_id, spec.update, launched.get(config_id) ?? []),
      replaced_first: (launched.get(config_id) ?? []).flatMap(({ id, makes_room, draining_at }) =>
        makes_room && now - (draining_at ?? 0) < PLACE_KEPT_MS ? id : [],
      ),
      demand: demandIn(config_id),
    };
  });
  const removed = new Set(core.launches.alive().map(({ config_id }) => config_id));
  for (const id of Object.keys(specs)) removed.delete(id);
  const others = [...removed].map((config_id): ObservedPool => {
    const demand = demandIn(config_id);
    return {
      config_id,
      spec: REMOVED,
      paused: false,
      removed: true,
      by_hand_until: null,
      forgiven_at: null,
      versions: null,
      replaced_first: [],
      demand,
    };
  });
  return [...named, ...others];
}

/** The place of a worker that was drained first is kept for its replacement for this many ms. */
const PLACE_KEPT_MS = 3_600_000;

function versionsIn(
  { versions, figures }: Known,
  configId: string,
  update: Update = USUAL_UPDATE,
  launched: readonly LaunchRecord[],
): ObservedVersions | null {
  const own = versions.of(configId);
  if (!own) return null;
  const { wanted, since, paused_since = null, kept } = own;
  const isWanted = ({ version }: LaunchRecord) => version === wanted;
  const serves = (of: string) => launched.some(({ version, state }) => version === of && state === 'ready');
  const serving = kept.find(
    ({ version, stopped_because }) => version !== wanted && stopped_because === null && serves(version),
  );
  /** The work of its workers before it became wanted once more says nothing of it as it is now. */
  const hasLeftBefore = (launch: LaunchRecord) =>
    (launch.draining_at ?? launch.terminating_at ?? (isFinal(launch) ? launch.state_at : since)) < since;
  const names = (of: readonly LaunchRecord[]) => of.map(({ name }) => name);
  return {
    wanted,
    since,
    is_proved: kept.some(({ version, proved_at }) => version === wanted && proved_at !== null),
    fallback: (lastProved(own, wanted) ?? serving)?.version ?? null,
    is_paused: paused_since !== null,
    update,
    figures: figures(names(launched.filter((launch) => isWanted(launch) && !hasLeftBefore(launch)))),
    others: figures(names(launched.filter((launch) => !isWanted(launch)))),
  };
}

function demandOf(pool: PoolCounts | undefined, backlog: BacklogFacts | undefined): Demand {
  const { batches = [], in_queue = 0 } = backlog ?? {};
  if (!pool) return { waiting: 0, running: 0, running_batch: 0, submitted: 0, ended: 0, batches };
  const waitingLines = Math.min(pool.waiting_in_background, in_queue, pool.waiting);
  const running_batch = Math.min(in_queue - waitingLines, pool.running);
  return {
    waiting: pool.waiting - waitingLines,
    running: pool.running,
    running_batch,
    submitted: pool.submitted - pool.submitted_in_background,
    ended: pool.ended,
    // Lines that run no longer belong to the backlog.
    batches: withoutRunning(batches, running_batch),
  };
}

/** Subtracts the running lines from the batches, first from those whose window ends first, since these run first. */
function withoutRunning(batches: Demand['batches'], running: number): Demand['batches'] {
  let left = running;
  return batches.flatMap((batch) => {
    const begun = Math.min(left, batch.lines);
    left -= begun;
    return batch.lines > begun ? { ...batch, lines: batch.lines - begun } : [];
  });
}
