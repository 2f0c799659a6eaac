import type { Core } from './core.ts';
import { ended, isFinal, type LaunchRecord, listsApartMs, moved, terminated } from './launch.ts';
import type { Machine } from './rpc.ts';
import { newStray } from './strays.ts';

/** A machine that was made and not started so long after the order, ms, is waited for in vain. */
const START_AGAIN_AFTER_MS = 15_000;

/** A provider's complete list. */
export interface CompleteList {
  provider: string;
  /** Where it was made, if that makes a difference. */
  host: string | null;
  /** When the call began: what happened since need not show in it. Epoch ms by the queue's clock. */
  begun_at: number;
  machines: readonly Machine[];
  /** Names of this installation's machines begin with it. */
  prefix: string;
  /** Workers that are connected: they are there, whatever a list says. */
  connected: ReadonlySet<string>;
}

/**
 * Compares a list with the launches: adopts what a launch was asked for, notes what ended, gives up what two lists do
 * not show, and has terminated what nobody wants. Names of other installations are not looked at.
 */
export function takeList(core: Core, list: CompleteList): void {
  const ours = list.machines.filter(({ name }) => name.startsWith(list.prefix));
  const launches = core.launches
    .alive()
    .filter((launch) => launch.provider === list.provider && launch.host === list.host);
  const wanted = new Set<Machine>();
  for (const launch of launches) {
    if (launch.state === 'intended') continue;
    const machine = machineOf(launch, ours);
    if (machine) {
      wanted.add(machine);
      takeMachine(core, launch, machine);
    } else miss(core, launch, list);
  }
  const strays = ours.filter((machine) => !wanted.has(machine) && !isWantedElsewhere(core, machine, list));
  for (const machine of strays) takeStray(core, machine, list);
  const shown = new Set(strays.map(({ external_id }) => external_id));
  for (const stray of core.strays.all()) {
    if (stray.provider !== list.provider || stray.host !== list.host) continue;
    if (!shown.has(stray.external_id)) core.strays.remove(stray);
  }
}

/** Names are not unique at every provider: of several the one whose id the launch has. */
function machineOf(launch: LaunchRecord, machines: readonly Machine[]): Machine | null {
  const named = machines.filter(({ name }) => name === launch.name);
  return named.find(({ external_id }) => external_id === launch.external_id) ?? named[0] ?? null;
}

/** The launcher that made the list may not be the one that the launch is bound to. */
function isWantedElsewhere(core: Core, machine: Machine, { provider, host }: CompleteList): boolean {
  const launch = core.launches.named(machine.name);
  if (!launch || isFinal(launch)) return false;
  return launch.state === 'intended' || (launch.provider === provider && launch.host !== host);
}

/** What the provider says of a launch's machine. */
function takeMachine(core: Core, launch: LaunchRecord, machine: Machine): void {
  const now = core.now();
  const told: Partial<LaunchRecord> = {
    external_id: machine.external_id,
    price_per_hour: machine.price_per_hour ?? launch.price_per_hour,
    // Where a container is started again it is paid for all the time.
    started_at: launch.started_at ?? machine.started_at,
    ended_at: machine.ended_at ?? launch.ended_at,
    exit_code: machine.exit_code ?? launch.exit_code,
    detail: machine.detail ?? launch.detail,
  };
  const heard = { missed_lists: 0, missed_since: null, ...told };
  let next: LaunchRecord = { ...launch, ...heard };
  if (machine.unstarted && isAwaited(next)) next = { ...next, order_due_at: startAgainAt(next, now) };
  else if (next.state === 'requested') next = moved(next, 'accepted', now, { order_due_at: null });
  else if (next.state === 'accepted') next = { ...next, order_due_at: null };
  if (machine.state === 'ended' && next.state !== 'terminating') {
    // One that was to end anyway ended well.
    const failure = machine.no_capacity ? 'no_capacity' : 'exited';
    const cause = next.state === 'draining' ? null : failure;
    next = terminated({ ...next, ended_at: next.ended_at ?? now }, now, { cause });
  }
  if (JSON.stringify(next) !== JSON.stringify(launch)) core.launches.save(next);
}

/** Nothing has been heard of its worker, and nobody wants its end. */
function isAwaited({ state }: LaunchRecord): boolean {
  return state === 'requested' || state === 'accepted';
}

/** The launcher that made its machine may be about to start it. */
function startAgainAt({ ordered_at, order_due_at }: LaunchRecord, now: number): number {
  const again = Math.max(now, (ordered_at ?? now) + START_AGAIN_AFTER_MS);
  return Math.min(order_due_at ?? again, again);
}

/** A list does not show a launch. Two of them, some time apart, mean that there is nothing. */
function miss(core: Core, launch: LaunchRecord, { begun_at, connected, host }: CompleteList): void {
  const isTooOld = begun_at <= (launch.ordered_at ?? launch.state_at);
  // An order that will be given out again asks by name itself.
  const isAsked = launch.state === 'requested' && launch.order_due_at !== null;
  if (isTooOld || isAsked || connected.has(launch.name)) return;
  const missed_since = launch.missed_since ?? begun_at;
  const missed = { ...launch, missed_lists: launch.missed_lists + 1, missed_since };
  if (begun_at - missed_since < listsApartMs(host)) return core.launches.save(missed);
  core.launches.save(ended(missed, core.now(), causeOfLoss(missed)));
}

function causeOfLoss({ state, cause }: LaunchRecord): LaunchRecord['cause'] {
  if (state === 'terminating' || state === 'draining') return cause;
  return state === 'ready' ? 'lost' : 'vanished';
}

/** A machine of ours that no launch wants. */
function takeStray(core: Core, machine: Machine, { provider, host, begun_at }: CompleteList): void {
  const { external_id, name } = machine;
  const known = core.strays.find({ provider, external_id });
  if (!known) {
    const id = core.newId();
    core.strays.save(newStray({ id, provider, external_id, name, host, first_seen_at: begun_at }));
  } else if (!known.is_sure && begun_at - known.first_seen_at >= listsApartMs(host)) {
    core.strays.save({ ...known, is_sure: true });
  }
}
