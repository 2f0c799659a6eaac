import type { AdapterState, Heartbeat, Instance } from '../protocol/index.ts';
import { isEnding, isFinal, type LaunchRecord } from './launch.ts';

/** A connected worker, as the queue reports it. */
export interface SessionShare {
  worker_id: string;
  config_id: string;
  /** Whether the worker takes jobs, takes none for now, or finishes those that it has. */
  state: 'ready' | 'paused' | 'draining';
  /**
   * Whether the worker itself has said that it drains, so that it cannot be taken back; left out: it drains, if at all,
   * by the cordon alone.
   */
  drains_itself?: boolean;
  /** Whether the worker drains because its machine is being taken away; left out: it has not said so. */
  preempted?: boolean;
  protocol: 'base' | 'extended';
  capacity: number;
  running: number;
  /** When the worker connected, epoch ms. */
  connected_at: number;
  /** The names that the worker's engine answers to; empty: only the pool's own. */
  models: string[];
  /** The state of the worker's adapters; null: it loads none. */
  adapters: AdapterState | null;
}

/** A new version of a pool that is tried on a part of the pool's requests. */
export interface CanaryShare {
  config_id: string;
  version: string;
  /** The most of the pool's requests that the workers of this version get, from 0 to 1. */
  share: number;
}

/** The jobs that a worker could not finish: their answers went on at another one, or were begun anew. */
export interface DisplacedJobs {
  moved: number;
  repeated: number;
}

/**
 * All that is known under one name, which is the machine's name at its provider and its worker's at the queue. The
 * value is immutable: a change makes a new one. Times are epoch ms of the server's clock, except those in the
 * heartbeat.
 */
export interface Machine {
  /** The name of the machine, which is its worker's id. */
  worker_id: string;
  /** The launch that wants the machine, or wanted it until it ended; null: the scheduler did not launch it. */
  launch: LaunchRecord | null;
  /**
   * Machines of this name that are being terminated since no launch wants them; names are not unique at every provider.
   */
  orphans: readonly LaunchRecord[];
  /** The pool of the worker's newest connection or heartbeat; null: the worker has named none. */
  config_id: string | null;
  /** The worker's connection; null: there is none. */
  session: SessionShare | null;
  /** The worker as it last registered; null: it only sent heartbeats, or it speaks only the base protocol. */
  instance: Instance | null;
  heartbeat: Heartbeat | null;
  heartbeat_at: number | null;
  /** The furthest progress of the worker's start, and when it was reached; null: the worker has sent no heartbeat. */
  progress: { phase: string | null; share: number; at: number } | null;
  /** When the worker's newest heartbeat came, or the queue reported the worker; null: neither has happened. */
  heard_at: number | null;
  /** How the worker's last connection ended; null: it is still open, or there was none. */
  disconnected: { at: number; reason: string } | null;
  /** The number of jobs that the worker ran when its last connection ended; null: unknown. */
  was_running: number | null;
  /** The jobs that the worker could not finish. */
  displaced: DisplacedJobs;
}

/** The one map of machines by name, which the fleet object owns. The scheduler reads it, and notes its launches. */
export interface MachineMap {
  readonly byName: ReadonlyMap<string, Machine>;
  /** Notes a launch or an orphan, or what has become of it. */
  attach(launch: LaunchRecord): void;
  /** Forgets a launch or an orphan. */
  detach(launch: LaunchRecord): void;
}

/** Returns a machine of which nothing is known but its name. */
export function newMachine(worker_id: string): Machine {
  return {
    worker_id,
    launch: null,
    orphans: [],
    config_id: null,
    session: null,
    instance: null,
    heartbeat: null,
    heartbeat_at: null,
    progress: null,
    heard_at: null,
    disconnected: null,
    was_running: null,
    displaced: { moved: 0, repeated: 0 },
  };
}

/** Returns the launch that wants the machine now, or null if none does. */
export function wantedBy({ launch }: Machine): LaunchRecord | null {
  return launch && !isFinal(launch) ? launch : null;
}

/** Returns whether a provider takes the machine away, or took it away, as its worker said. */
export function isPreempted({ session, heartbeat }: Machine): boolean {
  return session?.preempted === true || heartbeat?.preempted === true;
}

/** Returns whether the scheduler launched the machine and it is gone. */
export function isOver({ launch }: Machine): boolean {
  return launch !== null && isFinal(launch);
}

/**
 * Returns the workers that the queue must give no more jobs: those that drain or end, and those under our names without
 * a launch.
 */
export function cordonOf({ byName }: MachineMap, prefix: string): string[] {
  const isCordoned = (machine: Machine) => {
    const launch = wantedBy(machine);
    // Nobody knows which machine of a name runs the worker's jobs; the one that a launch wants is assumed to.
    if (launch) return isEnding(launch);
    const { orphans, session, worker_id } = machine;
    return orphans.length > 0 || (session !== null && worker_id.startsWith(prefix));
  };
  return [...byName.values()]
    .filter(isCordoned)
    .map(({ worker_id }) => worker_id)
    .sort();
}
