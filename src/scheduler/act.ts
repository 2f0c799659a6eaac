import type { Controls } from './control-table.ts';
import type { Core } from './core.ts';
import { isFinal, type LaunchRecord, moved, nameOf, newLaunch, terminated } from './launch.ts';
import type { Decision } from './rule-types.ts';

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
  const { config_id, machine, price_per_hour, replaces, reason, inputs } = decision;
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

/** Ends a launch: a ready worker is drained; others are terminated, since they have no jobs to lose. */
export function giveUp(core: Core, launch: LaunchRecord): void {
  const { state } = launch;
  if (isFinal(launch) || state === 'draining' || state === 'terminating') return;
  const now = core.now();
  core.launches.save(state === 'ready' ? moved(launch, 'draining', now) : terminated(launch, now));
}
