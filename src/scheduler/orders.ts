import type { Core } from './core.ts';
import { ended, isFinal, type LaunchRecord, moved } from './launch.ts';
import { hostOf } from './providers.ts';
import type { LauncherReport, Order, OrderResult } from './rpc.ts';
import type { FleetSpec, ProviderSpec } from './spec.ts';

/** An unanswered order is repeated after this many ms. A launcher drops an order that it could not begin sooner. */
const AGAIN_AFTER_MS = 60_000;
/** An order whose effect is unknown is repeated after this many ms. */
const AGAIN_AFTER_UNKNOWN_MS = 15_000;
/** A launcher checks every so many ms whether a terminated machine is gone: another may wait for its place. */
const AGAIN_AFTER_TERMINATING_MS = 5000;
/** The most orders for one launch; after that only the provider's lists show what became of it. */
const MOST_LAUNCH_ORDERS = 3;

/** An order without the fields that only the host can make. */
export type DueOrder = Exclude<Order, { kind: 'launch' }> | Omit<Extract<Order, { kind: 'launch' }>, 'token'>;

interface Taker {
  launcherId: string;
  report: Pick<LauncherReport, 'drivers' | 'host'>;
  /** The providers of the spec, and those that still have machines. */
  providers: Readonly<Record<string, ProviderSpec>>;
  pools: FleetSpec['pools'];
}

/** Returns the orders that are due for a launcher, recorded as given out in the same commit. */
export function takeOrders(core: Core, taker: Taker): DueOrder[] {
  const now = core.now();
  return core.launches
    .machines()
    .filter((launch) => mayTake(core, taker, launch) && isDue(launch, now))
    .flatMap((launch) => giveOut(core, launch, taker) ?? []);
}

/**
 * Returns whether a launcher may get a launch's order: one for a provider that it has a driver for and, where the
 * provider is bound to a host, for its own host.
 */
function mayTake(core: Core, { launcherId, report, providers }: Taker, of: LaunchRecord): boolean {
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

function giveOut(core: Core, launch: LaunchRecord, { report, providers, pools }: Taker): DueOrder | null {
  const now = core.now();
  const order = launch.order + 1;
  const { id: launch_id, provider, name, external_id, machine, config_id } = launch;
  const given = { order, ordered_at: now };
  if (launch.state === 'terminating') {
    core.launches.save({ ...launch, ...given, order_due_at: now + AGAIN_AFTER_MS });
    return { kind: 'terminate', launch_id, order, provider, name, external_id };
  }
  const pool = pools[config_id];
  // The rule ends a launch without a pool soon.
  if (!pool) return null;
  const order_due_at = order < MOST_LAUNCH_ORDERS ? now + AGAIN_AFTER_MS : null;
  const host = hostOf(providers[provider]!.driver, report);
  const asked = launch.state === 'intended' ? moved(launch, 'requested', now) : launch;
  core.launches.save({ ...asked, ...given, host, order_due_at });
  const { engine, model, image, env, secrets, slots, adapters } = pool;
  return {
    kind: 'launch',
    launch_id,
    order,
    provider,
    name,
    may_exist: order > 1,
    machine,
    config_id,
    pool: { engine, model, env, secrets, slots, adapters, ...(image !== undefined && { image }) },
  };
}

/**
 * Records the result of an order. The result of an older order counts too, since the machine's id in it is true. A launch
 * that has ended stays ended; if it has a machine after all, the provider's list shows it.
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
      // The launch was ordered again after its machine was made but not started.
      if (launch.state === 'accepted') known.order_due_at = null;
      return core.launches.save(known);
    }
    case 'no_capacity':
    case 'rejected':
      if (launch.state !== 'requested' || !isNewest) return;
      return core.launches.save(ended({ ...launch, detail: outcome.detail }, now, outcome.kind));
    case 'terminated':
      // A launch that was not ordered to end is gone where its launcher has ended, and the launcher's processes with
      // it.
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
