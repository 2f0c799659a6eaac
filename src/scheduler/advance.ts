import type { Core } from './core.ts';
import { type LaunchRecord, moved, terminated } from './launch.ts';
import type { Machines } from './machines.ts';

/** A worker that drains or is to be terminated may take this many ms to finish its jobs. */
const DRAIN_LIMIT_MS = 3_600_000;

/** Advances launches whose workers have connected. */
export function join({ launches, now }: Core, machines: Machines): void {
  const at = now();
  for (const { launch, session } of machines.values()) {
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
 * @param cordoned the queue's answer to the cordon, or null where there is none
 */
export function clear(core: Core, machines: Machines, cordoned: Record<string, number> | null): void {
  for (const { name, launch, orphans } of machines.values()) {
    const isIdle = cordoned?.[name] === 0;
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
