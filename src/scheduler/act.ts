import type { Controls } from './controls.ts';
import type { Core } from './core.ts';
import type { FleetFacts } from './facts.ts';
import { isFinal, type LaunchRecord, moved, nameOf, newLaunch, terminated } from './launch.ts';
import type { Decision } from './observed.ts';

/** A worker that drains or is to be terminated gets so long for what it runs, ms. */
const DRAIN_LIMIT_MS = 3_600_000;

/** Writes what was decided. */
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
  const { provider, kind, gpus, disk_gb = null } = machine;
  const id = core.newId();
  const launch = newLaunch(
    {
      id,
      name: nameOf(installation, config_id, id),
      config_id,
      provider,
      machine: { kind, gpus, disk_gb, price_per_hour: machine.price_per_hour ?? null },
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

/** Ends what runs under a config's name: the ready ones are drained, the others have no work to lose. */
export function giveUp(core: Core, launch: LaunchRecord): void {
  const { state } = launch;
  if (isFinal(launch) || state === 'draining' || state === 'terminating') return;
  const now = core.now();
  core.launches.save(state === 'ready' ? moved(launch, 'draining', now) : terminated(launch, now));
}

/** Workers that the queue is to give no more jobs: those that drain or end, and those that nobody wants. */
export function cordonOf(core: Core, prefix: string, { sessions }: FleetFacts): string[] {
  const leaving = core.launches
    .alive()
    .filter(({ state }) => state === 'draining' || state === 'terminating')
    .map(({ name }) => name);
  const unwanted = sessions
    .map(({ worker_id }) => worker_id)
    .filter((name) => name.startsWith(prefix) && !isWanted(core.launches.named(name)));
  const strays = core.strays
    .all()
    .map(({ name }) => name)
    .filter((name) => !isWanted(core.launches.named(name)));
  return [...new Set([...leaving, ...unwanted, ...strays])].sort();
}

function isWanted(launch: LaunchRecord | null): boolean {
  return launch !== null && !isFinal(launch);
}

/** What the queue's answer to the cordon makes free to be terminated. */
export function clear(core: Core, cordoned: Record<string, number> | null): void {
  const now = core.now();
  for (const launch of core.launches.alive()) {
    const { state, clear_at, draining_at } = launch;
    const isLate = now - (draining_at ?? launch.terminating_at ?? now) > DRAIN_LIMIT_MS;
    if (state === 'draining' && isLate) {
      const detail = 'It still ran jobs when its time to finish them was over.';
      core.launches.save(terminated(launch, now, { clear_at: now, detail }));
    }
    if (state !== 'terminating' || clear_at !== null) continue;
    if (cordoned?.[launch.name] === 0 || isLate) core.launches.save({ ...launch, clear_at: now });
  }
  for (const stray of core.strays.all()) {
    if (stray.clear_at !== null) continue;
    // Beside a machine that is wanted under the same name it cannot be told whose jobs the worker runs.
    const isDouble = isWanted(core.launches.named(stray.name));
    if (isDouble || cordoned?.[stray.name] === 0) core.strays.save({ ...stray, clear_at: now });
  }
}

/** Joins workers that are connected with their launches. */
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
