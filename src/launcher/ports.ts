import type { Clock } from '../process/clock.ts';
import type { Log } from '../process/log.ts';
import type { Driver } from '../providers/driver.ts';
import type { LauncherAnswer, LauncherReport } from '../scheduler/rpc.ts';
import type { ProviderSpec } from '../scheduler/spec.ts';

/** How launched workers reach the queue. */
export interface WorkerRoad {
  /** `http:` or `https:`, as it is reached from where the workers run. */
  url: string;
  queueId: string;
}

/** Everything outside itself that the launcher touches: real in production, virtual in tests and the simulation. */
export interface LauncherPorts {
  clock: Clock;
  /**
   * `POST /api/launchers/{id}/sync`.
   * @throws Error when the queue does not answer; another call may succeed
   */
  sync(report: LauncherReport): Promise<LauncherAnswer>;
  /** @throws Error when there is no such driver, or it cannot work here; it is shown to the operator */
  makeDriver(spec: ProviderSpec): Promise<Driver>;
  /** 0 (inclusive) to 1 (exclusive). */
  random: () => number;
  log: Log;
}

export interface LauncherSettings {
  /** Drivers that it offers. */
  drivers: string[];
  /** The machine that `process` and `docker` mean. */
  host: string;
  /** How launched workers reach the queue. */
  road: WorkerRoad;
  /** The launcher's own environment, from which launched workers get the secrets that their pool names. */
  env: NodeJS.ProcessEnv;
  /** Whether all machines end with the launcher. */
  endsMachines: boolean;
}
