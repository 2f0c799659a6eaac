import type { Core } from './core.ts';
import { ended, isFinal, type LaunchRecord, moved } from './launch.ts';
import { hostOf } from './providers.ts';
import type { LauncherReport, Order, OrderResult } from './rpc.ts';
import type { FleetSpec, ProviderSpec } from './spec.ts';
import type { Stray } from './strays.ts';

/** An order without an answer is given out again after so long, ms. A launcher drops one much sooner. */
const AGAIN_AFTER_MS = 60_000;
/** And so long after its effect was not known. */
const AGAIN_AFTER_UNKNOWN_MS = 15_000;
/** Whether a machine that was told to end is gone is asked so often, ms: another may wait for its place. */
const AGAIN_AFTER_TERMINATING_MS = 5000;
/** A launch is asked for so often at most; then only the provider's lists tell what became of it. */
const MOST_LAUNCH_ORDERS = 3;

/** An order without what only the host can make. */
export type DueOrder = Exclude<Order, { kind: 'launch' }> | Omit<Extract<Order, { kind: 'launch' }>, 'token'>;

interface Taker {
  launcherId: string;
  report: Pick<LauncherReport, 'drivers' | 'host'>;
  /** Those of the spec, and those that still have machines. */
  providers: Readonly<Record<string, ProviderSpec>>;
  configs: FleetSpec['configs'];
}

/** The orders that are due for a launcher. That they were given out is written in the same commit. */
export function takeOrders(core: Core, taker: Taker): DueOrder[] {
  const now = core.now();
  const launches = core.launches
    .alive()
    .filter((launch) => mayTake(core, taker, launch) && isDue(launch, now))
    .flatMap((launch) => giveOut(core, launch, taker) ?? []);
  const strays = core.strays
    .all()
    .filter((stray) => mayTake(core, taker, stray) && stray.is_sure && stray.clear_at !== null)
    .filter(({ order_due_at }) => order_due_at <= now)
    .map((stray) => terminateStray(core, stray));
  return [...launches, ...strays];
}

/** A launcher has orders for the providers that it has drivers for; what is bound to a machine stays there. */
function mayTake(
  core: Core,
  { launcherId, report, providers }: Taker,
  of: Pick<LaunchRecord | Stray, 'provider' | 'host'>,
): boolean {
  const driver = providers[of.provider]?.driver;
  if (driver === undefined || !report.drivers.includes(driver)) return false;
  if (of.host !== null) return of.host === hostOf(driver, report);
  return !core.providers.isOutOfReach(launcherId, of.provider, core.now());
}

function isDue({ state, order_due_at, clear_at }: LaunchRecord, now: number): boolean {
  if (order_due_at === null || order_due_at > now) return false;
  if (state === 'terminating') return clear_at !== null;
  return state === 'intended' || state === 'requested' || state === 'accepted';
}

function giveOut(core: Core, launch: LaunchRecord, { report, providers, configs }: Taker): DueOrder | null {
  const now = core.now();
  const order = launch.order + 1;
  const { id: launch_id, provider, name, external_id, machine, config_id } = launch;
  const given = { order, ordered_at: now };
  if (launch.state === 'terminating') {
    core.launches.save({ ...launch, ...given, order_due_at: now + AGAIN_AFTER_MS });
    return { kind: 'terminate', launch_id, order, provider, name, external_id };
  }
  const config = configs[config_id];
  // The rule ends it soon.
  if (!config) return null;
  const order_due_at = order < MOST_LAUNCH_ORDERS ? now + AGAIN_AFTER_MS : null;
  const host = hostOf(providers[provider]!.driver, report);
  const asked = launch.state === 'intended' ? moved(launch, 'requested', now) : launch;
  core.launches.save({ ...asked, ...given, host, order_due_at });
  const { engine, model, image, env, secrets, slots } = config;
  return {
    kind: 'launch',
    launch_id,
    order,
    provider,
    name,
    may_exist: order > 1,
    machine,
    config_id,
    config: { engine, model, env, secrets, slots, ...(image !== undefined && { image }) },
  };
}

function terminateStray(core: Core, stray: Stray): DueOrder {
  const order = stray.order + 1;
  core.strays.save({ ...stray, order, order_due_at: core.now() + AGAIN_AFTER_MS });
  const { id: launch_id, provider, name, external_id } = stray;
  return { kind: 'terminate', launch_id, order, provider, name, external_id };
}

/**
 * What came of an order. One to an older order is knowledge too: an id is an id. Nothing moves a launch back that has
 * ended; a machine that it turns out to have is found in the provider's list.
 */
export function takeResult(core: Core, { launch_id, order, outcome }: OrderResult): void {
  const launch = core.launches.find(launch_id);
  if (!launch || isFinal(launch)) return;
  const now = core.now();
  const isNewest = order === launch.order;
  switch (outcome.kind) {
    case 'launched': {
      const { external_id } = outcome;
      const price_per_hour = outcome.price_per_hour ?? launch.price_per_hour;
      const known = { ...launch, external_id, price_per_hour };
      const isAsked = launch.state === 'requested';
      if (isAsked) return core.launches.save(moved(known, 'accepted', now, { order_due_at: null }));
      // Its machine was made and not started, and the launch ordered again.
      if (launch.state === 'accepted') known.order_due_at = null;
      return core.launches.save(known);
    }
    case 'no_capacity':
    case 'rejected':
      if (launch.state !== 'requested' || !isNewest) return;
      return core.launches.save(ended({ ...launch, detail: outcome.detail }, now, outcome.kind));
    case 'terminated':
      // Of one that was not to end: its launcher has ended, and its processes with it.
      if (launch.state === 'intended') return;
      return core.launches.save(ended(launch, now));
    case 'terminating':
      if (launch.state !== 'terminating' || !isNewest) return;
      return core.launches.save({ ...launch, order_due_at: now + AGAIN_AFTER_TERMINATING_MS });
    case 'unknown': {
      if (!isNewest || launch.order_due_at === null) return;
      const order_due_at = Math.min(launch.order_due_at, now + AGAIN_AFTER_UNKNOWN_MS);
      return core.launches.save({ ...launch, detail: outcome.detail, order_due_at });
    }
  }
}
