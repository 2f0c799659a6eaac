import type { Core } from './core.ts';
import { isEnding, isFinal, type LaunchRecord, moved, nameOf, newLaunch, terminated } from './launch.ts';
import { wantedBy } from './machines.ts';
import type { Decision } from './rule-types.ts';
import type { Controls } from './state.ts';
import { proved, stopped, type Versions } from './versions.ts';

/** Writes the decisions into the launches. */
export function act(
  core: Core,
  decisions: readonly Decision[],
  versions: Versions,
  installation: string,
): void {
  for (const decision of decisions) {
    if (decision.kind === 'launch') intend(core, decision, versions, installation);
    else if (decision.kind === 'prove' || decision.kind === 'stop') judged(core, decision, versions);
    else {
      const launch = core.launches.find(decision.launch_id);
      if (launch && !isFinal(launch)) change(core, launch, decision);
    }
  }
}

function intend(
  core: Core,
  decision: Extract<Decision, { kind: 'launch' }>,
  versions: Versions,
  installation: string,
): void {
  const { config_id, machine, price_per_hour, version, replaces, is_stand_in, reason, inputs } = decision;
  const { provider, instance_type, gpus, disk_gb = null } = machine;
  const id = core.newId();
  const launch = newLaunch(
    {
      id,
      name: nameOf(installation, config_id, id),
      config_id,
      provider,
      machine: { instance_type, gpus, disk_gb, price_per_hour: machine.price_per_hour ?? null },
      price_per_hour,
      reason,
      inputs,
      replaces,
      version: version ?? versions.wanted(config_id),
      is_spot: machine.spot ?? false,
      is_stand_in,
    },
    core.now(),
  );
  core.launches.save(launch);
}

function judged(
  { now }: Core,
  decision: Extract<Decision, { version: string; kind: 'prove' | 'stop' }>,
  versions: Versions,
): void {
  const { config_id, version } = decision;
  const before = versions.of(config_id);
  if (!before) return;
  const after =
    decision.kind === 'prove'
      ? proved(before, version, now())
      : stopped(before, version, decision.back_to, decision.reason, now());
  versions.save(config_id, after);
}

function change(core: Core, launch: LaunchRecord, decision: Extract<Decision, { launch_id: string }>): void {
  const now = core.now();
  switch (decision.kind) {
    case 'drain':
      if (launch.state === 'ready')
        core.launches.save(moved(launch, 'draining', now, { makes_room: decision.makes_room ?? false }));
      return;
    case 'take_back':
      if (launch.state === 'draining') {
        core.launches.save(
          moved(launch, 'ready', now, { draining_at: null, clear_at: null, makes_room: false }),
        );
      }
      return;
    case 'terminate': {
      if (launch.state === 'terminating') return;
      const { cause, reason } = decision;
      const detail = cause === null ? launch.detail : (launch.detail ?? reason);
      core.launches.save(terminated(launch, now, { cause, detail }));
    }
  }
}

/** Ends a launch: a ready worker is drained; others are terminated, since they have no jobs to lose. */
export function giveUp(core: Core, launch: LaunchRecord): void {
  const { state } = launch;
  if (isFinal(launch) || isEnding(launch)) return;
  const now = core.now();
  core.launches.save(state === 'ready' ? moved(launch, 'draining', now) : terminated(launch, now));
}

/** A worker that drains or is to be terminated has this many ms to finish its jobs. */
const DRAIN_LIMIT_MS = 3_600_000;

/** Advances launches whose workers have connected. */
export function join({ machines, launches, now }: Core): void {
  const at = now();
  for (const { launch, session } of machines.byName.values()) {
    if (!launch || !session) continue;
    let next = launch;
    if (next.state === 'requested' || next.state === 'accepted') {
      const accepted_at = next.accepted_at ?? at;
      next = moved(next, 'registered', at, { accepted_at, order_due_at: null });
    }
    if (next.state === 'registered' && session.capacity > 0) next = moved(next, 'ready', at);
    if (next !== launch) launches.save(next);
  }
}

/**
 * Clears for termination the machines whose workers run nothing any more.
 * @param cordoned the queue's answer to the cordon; null: there is none
 */
export function clear(core: Core, cordoned: Record<string, number> | null): void {
  for (const machine of core.machines.byName.values()) {
    const { worker_id, orphans } = machine;
    const launch = wantedBy(machine);
    const isIdle = cordoned?.[worker_id] === 0;
    if (launch) clearOne(core, launch, isIdle);
    // An orphan beside a machine that a launch wants is assumed to run nothing.
    for (const orphan of orphans) clearOne(core, orphan, isIdle || launch !== null);
  }
}

function clearOne({ launches, now }: Core, launch: LaunchRecord, isIdle: boolean): void {
  const at = now();
  const isLate = at - (launch.draining_at ?? launch.terminating_at ?? at) > DRAIN_LIMIT_MS;
  if (launch.state === 'draining' && isLate) {
    const detail = 'It still ran jobs when its time to finish them was over.';
    return launches.save(terminated(launch, at, { clear_at: at, detail }));
  }
  if (launch.state !== 'terminating' || launch.clear_at !== null) return;
  if (isIdle || isLate) launches.save({ ...launch, clear_at: at });
}

/**
 * The fields of a launch that are past times by the queue's clock; `started_at` and `ended_at` are by the provider's.
 */
const PAST = [
  'state_at',
  'intended_at',
  'requested_at',
  'accepted_at',
  'registered_at',
  'ready_at',
  'draining_at',
  'terminating_at',
  'missed_since',
  'ordered_at',
  'clear_at',
] as const satisfies (keyof LaunchRecord)[];

/**
 * Moves all stored times back after the clock was set back, so that none of them lies in the future. Otherwise no order
 * would be repeated, and no machine found to be gone, until the clock has caught up.
 */
export function followClock({ launches, now }: Core, controls: Controls, versions: Versions): void {
  const rows = launches.all();
  const byMs = newest(rows) - now();
  if (byMs <= 0) return;
  for (const launch of rows) launches.save(movedBack(launch, byMs));
  controls.moveBack(byMs);
  versions.moveBack(byMs);
}

/** Returns the newest time, epoch ms; 0 if there is none. */
function newest(launches: readonly LaunchRecord[]): number {
  let latest = 0;
  for (const launch of launches) for (const field of PAST) latest = Math.max(latest, launch[field] ?? 0);
  return latest;
}

function movedBack(launch: LaunchRecord, byMs: number): LaunchRecord {
  const next = { ...launch };
  for (const field of [...PAST, 'order_due_at'] as const) {
    const at = launch[field];
    if (at !== null) next[field] = at - byMs;
  }
  return next;
}
