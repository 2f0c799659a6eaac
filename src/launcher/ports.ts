import type { Clock } from '../process/clock.ts';
import type { Log } from '../process/log.ts';
import type { Driver } from '../providers/driver.ts';
import type { ProviderSpec } from '../scheduler/provider-spec.ts';
import type { LauncherAnswer, LauncherReport } from '../scheduler/rpc.ts';

/** The address by which launched workers reach the queue. */
export interface WorkerRoad {
  /** The queue's URL from where the workers run, `http:` or `https:`. */
  url: string;
  queueId: string;
}

/**
 * The launcher's ports, for everything that it touches outside itself: real in production, virtual in tests and the
 * simulation.
 */
export interface LauncherPorts {
  clock: Clock;
  /**
   * Posts to `/api/launchers/{id}/sync`.
   * @throws Error when the queue does not answer; another call may succeed
   */
  sync(report: LauncherReport): Promise<LauncherAnswer>;
  /** @throws Error for the operator, when the driver does not exist or cannot work here */
  makeDriver(spec: ProviderSpec): Promise<Driver>;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  random: () => number;
  log: Log;
}

export interface LauncherSettings {
  /** The drivers that the launcher offers. */
  drivers: string[];
  /** The machine that `process` and `docker` stand for. */
  host: string;
  /** The address by which launched workers reach the queue. */
  road: WorkerRoad;
  /** The launcher's own environment, from which launched workers get the secrets that their pool names. */
  env: NodeJS.ProcessEnv;
  /** Whether the launcher ends all machines when it ends. */
  endsMachines: boolean;
}
