import type { Controls } from './controls.ts';
import type { Core } from './core.ts';
import type { FleetFacts } from './facts.ts';
import { isFinal, type LaunchRecord, moved, nameOf, newLaunch, terminated } from './launch.ts';
import type { Launches } from './launch-table.ts';
import type { Decision } from './observed.ts';

/** How long a worker that drains or is to be terminated may finish its jobs, ms. */
const DRAIN_LIMIT_MS = 3_600_000;

/** Writes the decisions into the launches. */
export function act(
  core: Core,
  decisions: readonly Decision[],
  controls: Controls,
  installation: string,
): void {
  for (const decision of decisions) {
    if (decision.kind === 'launch') intend(core, decision, controls, installation);
    else {
      const launch = core.launches.find(decision.launch_id);
      if (launch && !isFinal(launch)) change(core, launch, decision);
    }
  }
}

function intend(
  core: Core,
  decision: Extract<Decision, { kind: 'launch' }>,
  controls: Controls,
  installation: string,
): void {
  const { config_id, machine, price_per_hour, reason, inputs } = decision;
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
      revision: controls.of(config_id).revision,
    },
    core.now(),
  );
  core.launches.save(launch);
}

function change(core: Core, launch: LaunchRecord, decision: Exclude<Decision, { kind: 'launch' }>): void {
  const now = core.now();
  switch (decision.kind) {
    case 'drain':
      if (launch.state === 'ready') core.launches.save(moved(launch, 'draining', now));
      return;
    case 'take_back':
      if (launch.state === 'draining') {
        core.launches.save(moved(launch, 'ready', now, { draining_at: null, clear_at: null }));
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

/** Ends a launch: a ready worker is drained, others are terminated since they have no jobs to lose. */
export function giveUp(core: Core, launch: LaunchRecord): void {
  const { state } = launch;
  if (isFinal(launch) || state === 'draining' || state === 'terminating') return;
  const now = core.now();
  core.launches.save(state === 'ready' ? moved(launch, 'draining', now) : terminated(launch, now));
}

/** Workers that the queue must give no more jobs: those that drain or end, and those without a launch. */
export function cordonOf({ launches }: Core, prefix: string, { sessions }: FleetFacts): string[] {
  const leaving = launches
    .machines()
    .filter(({ state }) => state === 'draining' || state === 'terminating')
    .filter((launch) => !isDouble(launches, launch))
    .map(({ name }) => name);
  const unwanted = sessions
    .map(({ worker_id }) => worker_id)
    .filter((name) => name.startsWith(prefix) && launches.wanting(name) === null);
  return [...new Set([...leaving, ...unwanted])].sort();
}

/** An orphan that shares its name with a wanted machine: which of the two runs the worker's jobs is unknown. */
function isDouble(launches: Launches, { is_orphan, name }: LaunchRecord): boolean {
  return is_orphan && launches.wanting(name) !== null;
}

/** Clears workers for termination that run nothing any more, by the queue's answer to the cordon. */
export function clear({ launches, now }: Core, cordoned: Record<string, number> | null): void {
  const at = now();
  for (const launch of launches.machines()) {
    const { state, clear_at, draining_at } = launch;
    const isLate = at - (draining_at ?? launch.terminating_at ?? at) > DRAIN_LIMIT_MS;
    if (state === 'draining' && isLate) {
      const detail = 'It still ran jobs when its time to finish them was over.';
      launches.save(terminated(launch, at, { clear_at: at, detail }));
    }
    if (state !== 'terminating' || clear_at !== null) continue;
    const isClear = cordoned?.[launch.name] === 0 || isLate || isDouble(launches, launch);
    if (isClear) launches.save({ ...launch, clear_at: at });
  }
}

/** Moves launches on whose workers have connected. */
export function join(core: Core, { sessions }: FleetFacts): void {
  const byId = new Map(sessions.map((session) => [session.worker_id, session]));
  const now = core.now();
  for (const launch of core.launches.alive()) {
    const session = byId.get(launch.name);
    if (!session) continue;
    let next = launch;
    if (next.state === 'requested' || next.state === 'accepted') {
      const accepted_at = next.accepted_at ?? now;
      next = moved(next, 'registered', now, { accepted_at, order_due_at: null });
    }
    if (next.state === 'registered' && session.capacity > 0) next = moved(next, 'ready', now);
    if (next !== launch) core.launches.save(next);
  }
}
