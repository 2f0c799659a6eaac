import type { Core } from './core.ts';
import {
  ended,
  exists,
  type FailureCause,
  isFinal,
  type LaunchRecord,
  listsApartMs,
  moved,
  newOrphan,
  poolIn,
  prefixOf,
  terminated,
} from './launch.ts';
import { isPreempted, wantedBy } from './machines.ts';
import type { ProviderSpec } from './provider-spec.ts';
import { hostOf } from './providers.ts';
import type { LauncherReport, ListedMachine, Order, OrderResult } from './rpc.ts';
import type { FleetSpec } from './spec.ts';
import type { Versions } from './versions.ts';

/** An unanswered order is repeated after this many ms. A launcher drops an order that it could not begin sooner. */
const AGAIN_AFTER_MS = 60_000;
/** An order whose effect is unknown is repeated after this many ms. */
const AGAIN_AFTER_UNKNOWN_MS = 15_000;
/** The interval at which a launcher checks whether a terminated machine is gone, ms: another may wait for its place. */
const AGAIN_AFTER_TERMINATING_MS = 5000;
/** The most orders for one launch; after that only the provider's lists show whether it has a machine. */
const MOST_LAUNCH_ORDERS = 3;

/** An order without the fields that only the object around the scheduler can make. */
export type DueOrder = Exclude<Order, { kind: 'launch' }> | Omit<Extract<Order, { kind: 'launch' }>, 'token'>;

interface Taker {
  launcherId: string;
  report: Pick<LauncherReport, 'drivers' | 'host'>;
  /** The providers of the spec, and former ones that still have machines. */
  providers: Readonly<Record<string, ProviderSpec>>;
  pools: FleetSpec['pools'];
  versions: Versions;
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
 * Returns whether a launcher may get a launch's order: it has a driver for the provider and, if the provider is bound
 * to a host, runs on that host.
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

function giveOut(
  core: Core,
  launch: LaunchRecord,
  { report, providers, pools, versions }: Taker,
): DueOrder | null {
  const now = core.now();
  const order = launch.order + 1;
  const { id: launch_id, provider, name, external_id, machine, config_id, is_spot } = launch;
  const given = { order, ordered_at: now };
  if (launch.state === 'terminating') {
    const order_by_name = external_id === null ? order : launch.order_by_name;
    core.launches.save({ ...launch, ...given, order_by_name, order_due_at: now + AGAIN_AFTER_MS });
    return { kind: 'terminate', launch_id, order, provider, name, external_id };
  }
  // A launch is made with what its version was started with, whatever the newest file says.
  const pool = versions.startedWith(config_id, launch.version);
  // The rule ends a launch soon whose pool or version is gone.
  if (!pools[config_id] || !pool) return null;
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
    machine: { ...machine, ...(is_spot && { spot: true }) },
    config_id,
    pool: { engine, model, env, secrets, slots, adapters, ...(image !== undefined && { image }) },
    version: launch.version,
  };
}

/**
 * Records the result of an order. The result of an older order counts too, since the machine's id in it is true. A
 * launch that has ended stays ended; if it has a machine after all, the provider's list shows it.
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
      // A launch that was not ordered to end is gone if its launcher has ended, and the launcher's processes with it.
      if (launch.state === 'intended') return;
      if (!wasByName(launch, order)) return core.launches.save(ended(launch, now));
      if (isNewest) core.launches.save({ ...launch, order_due_at: now });
      return;
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

/**
 * Returns whether an order to end named no machine, and the launch's machine has become known since. Its driver looked
 * for the name in a list that may lag behind, so that only an order with the id tells whether the machine is gone.
 */
function wasByName({ external_id, order_by_name }: LaunchRecord, order: number): boolean {
  // A launch's first order is never one to end: a launcher that ends with all its machines answers that one.
  return external_id !== null && order > 1 && order <= (order_by_name ?? 0);
}

/** A machine that is created but not started this many ms after its order will not start by itself. */
const START_AGAIN_AFTER_MS = 15_000;

/** A provider's complete list of machines. */
export interface CompleteList {
  provider: string;
  /** The host that the list covers; null: every launcher sees the same machines. */
  host: string | null;
  /** When the call began, epoch ms by the queue's clock: later changes may be missing from the list. */
  begun_at: number;
  machines: readonly ListedMachine[];
  /** The installation's id, which the names of its machines contain. */
  installation: string;
}

/**
 * Compares a list with the launches: adopts machines of launches, records which ended, gives up launches that two lists
 * do not show, and records orphans, which belong to no launch. Machines of other installations are ignored.
 */
export function takeList(core: Core, list: CompleteList): void {
  const ours = list.machines.filter(({ name }) => name.startsWith(prefixOf(list.installation)));
  const isListed = (launch: LaunchRecord) => launch.provider === list.provider && launch.host === list.host;
  const wanted = new Set<ListedMachine>();
  for (const launch of core.launches.alive().filter(isListed)) {
    if (launch.state === 'intended') continue;
    const machine = machineOf(launch, ours);
    if (machine) {
      wanted.add(machine);
      takeMachine(core, launch, machine);
    } else miss(core, launch, list);
  }
  const unwanted = ours.filter((machine) => !wanted.has(machine) && !isWantedElsewhere(core, machine, list));
  const orphans = core.launches.machines().filter((launch) => launch.is_orphan && isListed(launch));
  for (const orphan of orphans) {
    const isShown = unwanted.some(({ external_id }) => external_id === orphan.external_id);
    if (!isShown) core.launches.save(ended(orphan, core.now()));
  }
  for (const machine of unwanted) {
    takeOrphan(
      core,
      orphans.find(({ external_id }) => external_id === machine.external_id),
      machine,
      list,
    );
  }
}

/**
 * Returns the machine of a launch among those of its name, since names are not unique at every provider: the one whose
 * id the launch has. Another takes its place only until the launch is cleared for termination: a launcher's later
 * answers are about the machine that it was ordered to end.
 */
function machineOf(launch: LaunchRecord, machines: readonly ListedMachine[]): ListedMachine | null {
  const { name, external_id, clear_at } = launch;
  const named = machines.filter((machine) => machine.name === name);
  const own = named.find((machine) => machine.external_id === external_id);
  if (own || (external_id !== null && clear_at !== null)) return own ?? null;
  return named[0] ?? null;
}

/**
 * Returns whether a launch outside this list wants the machine: the list may be from another launcher than the one that
 * the launch is bound to.
 */
function isWantedElsewhere(
  { machines }: Core,
  { name }: ListedMachine,
  { provider, host }: CompleteList,
): boolean {
  const machine = machines.byName.get(name);
  const launch = machine && wantedBy(machine);
  if (!launch) return false;
  return launch.state === 'intended' || (launch.provider === provider && launch.host !== host);
}

/** Records what the provider reports of a launch's machine. */
function takeMachine(core: Core, launch: LaunchRecord, machine: ListedMachine): void {
  const now = core.now();
  const hasEnded = machine.state === 'ended';
  const told: Partial<LaunchRecord> = {
    external_id: machine.external_id,
    // Of a machine that has ended its provider may tell that it costs nothing; the hours before were paid for.
    price_per_hour: (hasEnded ? null : machine.price_per_hour) ?? launch.price_per_hour,
    // The first start counts: a provider that restarts a container bills the time between.
    started_at: launch.started_at ?? machine.started_at,
    // Unless the provider tells when it ended, a machine is paid for until it is gone; so is one that runs anew.
    ended_at: machine.ended_at ?? (hasEnded ? launch.ended_at : null),
    exit_code: machine.exit_code ?? launch.exit_code,
    // The reason why a launch failed stays, whatever its machine reports while it ends.
    detail: launch.cause === null ? (machine.detail ?? launch.detail) : (launch.detail ?? machine.detail),
  };
  const heard = { missed_lists: 0, missed_since: null, ...told };
  let next: LaunchRecord = { ...launch, ...heard };
  if (machine.unstarted && isAwaited(next)) next = { ...next, order_due_at: startAgainAt(next, now) };
  else if (next.state === 'requested') next = moved(next, 'accepted', now, { order_due_at: null });
  else if (next.state === 'accepted') next = { ...next, order_due_at: null };
  if (hasEnded && next.state !== 'terminating') {
    // A machine that was ordered to end has not failed.
    const cause = next.state === 'draining' ? null : causeOfEnd(next, machine, hasNotice(core, next));
    next = terminated(next, now, { cause });
  }
  if (JSON.stringify(next) !== JSON.stringify(launch)) core.launches.save(next);
}

/** Returns whether the launch's worker has not registered and the launch has not been terminated. */
function isAwaited({ state }: LaunchRecord): boolean {
  return state === 'requested' || state === 'accepted';
}

/** Returns when to start a machine again: not at once, since the launcher that made it may be about to start it. */
function startAgainAt({ ordered_at, order_due_at }: LaunchRecord, now: number): number {
  const again = Math.max(now, (ordered_at ?? now) + START_AGAIN_AFTER_MS);
  return Math.min(order_due_at ?? again, again);
}

/**
 * Records that a list lacks a launch's machine. Two such lists, some time apart, mean that the machine does not exist.
 */
function miss(core: Core, launch: LaunchRecord, { begun_at, host }: CompleteList): void {
  const isTooOld = begun_at <= (launch.ordered_at ?? launch.state_at);
  // The order is repeated soon, and the driver then looks the machine up by name.
  const isAsked = launch.state === 'requested' && launch.order_due_at !== null;
  // A connected worker proves that its machine is there, even if a list lacks it.
  if (isTooOld || isAsked || core.machines.byName.get(launch.name)?.session) return;
  const missed_since = launch.missed_since ?? begun_at;
  const missed = { ...launch, missed_lists: launch.missed_lists + 1, missed_since };
  if (begun_at - missed_since < listsApartMs(host)) return core.launches.save(missed);
  core.launches.save(ended(missed, core.now(), causeOfLoss(missed, hasNotice(core, missed))));
}

/** Returns whether the launch's worker said that its machine is taken away. */
function hasNotice({ machines }: Core, { name }: LaunchRecord): boolean {
  const machine = machines.byName.get(name);
  return machine !== undefined && isPreempted(machine);
}

/**
 * Returns why a machine that is listed as ended failed. A spot machine that served and ended without an exit code was
 * taken back; one that had not become ready may be a container that fails by itself.
 */
function causeOfEnd(
  { is_spot, ready_at, exit_code }: LaunchRecord,
  machine: ListedMachine,
  hadNotice: boolean,
): FailureCause {
  if (hadNotice) return 'preempted';
  if (is_spot && machine.preempted) return 'preempted';
  if (machine.no_capacity) return 'no_capacity';
  // A cluster drains nodes that are on demand too.
  if (machine.preempted) return 'preempted';
  return is_spot && ready_at !== null && exit_code === null ? 'preempted' : 'exited';
}

/** Returns why a machine that is not listed any more failed: a spot machine that existed was taken back. */
function causeOfLoss(launch: LaunchRecord, hadNotice: boolean): LaunchRecord['cause'] {
  const { state, cause, is_spot } = launch;
  if (state === 'terminating' || state === 'draining') return cause;
  if (hadNotice) return 'preempted';
  if (is_spot && exists(launch)) return 'preempted';
  return state === 'ready' ? 'lost' : 'vanished';
}

/**
 * Records a machine of this installation that has no launch. Lists lag, so it is ended only once a second list shows
 * it.
 */
function takeOrphan(
  core: Core,
  known: LaunchRecord | undefined,
  machine: ListedMachine,
  list: CompleteList,
): void {
  const { provider, host, begun_at, installation } = list;
  if (!known) {
    const { name, external_id } = machine;
    const config_id = poolIn(name, installation);
    const seen = { id: core.newId(), name, config_id, provider, host, external_id };
    core.launches.save(newOrphan(seen, begun_at));
  } else if (known.order === 0 && begun_at - known.intended_at >= listsApartMs(host)) {
    core.launches.save({ ...known, order_due_at: core.now() });
  }
}
