import type { LaunchRecord } from './launch.ts';
import type { Launches } from './launches.ts';
import type { FleetFacts, WorkerFacts } from './rule-types.ts';

/** Everything under one name, which is a machine's at its provider and its worker's at the queue. */
interface Machine extends WorkerFacts {
  name: string;
  /** The launch that wants the machine; null where none does. */
  launch: LaunchRecord | null;
  /** Machines of this name that are terminated since no launch wants them; names are not unique at every provider. */
  orphans: LaunchRecord[];
}

export type Machines = ReadonlyMap<string, Machine>;

/** Returns every machine that may run, launched or not, and every known worker, by name. */
export function machinesOf(launches: Launches, { workers }: FleetFacts): Machines {
  const machines = new Map<string, Machine>();
  const at = (name: string): Machine => {
    const known = machines.get(name);
    if (known) return known;
    const worker = workers.get(name) ?? { session: null, heartbeat: null };
    const machine = { name, launch: null, orphans: [], ...worker };
    machines.set(name, machine);
    return machine;
  };
  for (const launch of launches.machines()) {
    if (launch.is_orphan) at(launch.name).orphans.push(launch);
    else at(launch.name).launch = launch;
  }
  for (const name of workers.keys()) at(name);
  return machines;
}

/**
 * Returns the workers that the queue must give no more jobs: those that drain or end, and those of ours without a
 * launch.
 */
export function cordonOf(machines: Machines, prefix: string): string[] {
  const isCordoned = ({ name, launch, orphans, session }: Machine) => {
    // It is unknown which machine of a name runs the worker's jobs; the wanted one is assumed to.
    if (launch) return launch.state === 'draining' || launch.state === 'terminating';
    return orphans.length > 0 || (session !== null && name.startsWith(prefix));
  };
  return [...machines.values()]
    .filter(isCordoned)
    .map(({ name }) => name)
    .sort();
}
