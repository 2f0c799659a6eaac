import type { Clock } from '../process/clock.ts';
import type { Fetch } from '../process/http.ts';
import type { Log } from '../process/log.ts';
import { longestWayDownMs } from '../process/way-down.ts';
import type { EngineName } from '../protocol/index.ts';
import type { ProviderSpec } from '../scheduler/provider-spec.ts';
import type { LaunchOutcome, ListedMachine } from '../scheduler/rpc.ts';

/**
 * A source of machines. A driver is stateless: the provider's list has its launches by their names, and the scheduler
 * stores everything else. Every call ends within its time limit; a call whose effect is not known answers `unknown`,
 * never an error and never a guess.
 */
export interface Driver {
  /**
   * Starts a container under `request.name`. If `request.may_exist`, looks for the name first, and never makes a second
   * container of that name: it answers with the existing one.
   */
  launch(request: LaunchRequest): Promise<LaunchOutcome>;
  /**
   * Lists everything whose name begins with `prefix`, all pages. Ended machines are listed as long as the provider
   * shows them.
   * @throws Error when the list is not complete: a provider that does not answer has not lost its machines
   */
  list(prefix: string): Promise<ListedMachine[]>;
  /**
   * Ends a machine, whatever its state. `terminated` says that the machine is gone, now or before; while it still
   * exists, however long that lasts, the answer is `terminating`, and the same order asks again. Without an external id
   * it ends every machine of exactly that name. No other machine is ever ended.
   */
  terminate(machine: MachineKey): Promise<LaunchOutcome>;
  /** Returns the price of one GPU by instance type, US dollars an hour, if the provider reports it. */
  prices?(instance_types: string[]): Promise<{ instance_type: string; price_per_hour: number }[]>;
  /** Closes connections and timers. Machines run on. */
  close?(): void | Promise<void>;
}

export interface MachineKey {
  name: string;
  external_id: string | null;
}

export interface LaunchRequest {
  name: string;
  may_exist: boolean;
  instance_type: string;
  gpus: number;
  disk_gb: number | null;
  /** The highest price of the machine, US dollars an hour; null: any price. */
  price_per_hour: number | null;
  /** Whether to launch a spot machine. `price_per_hour` is a number then. */
  spot?: boolean | undefined;
  image: string | null;
  /** The container's whole environment; CASOLA_INSTANCE_ID is `name`. It holds secrets and is never logged. */
  env: Record<string, string>;
}

/** The ports of drivers: real in production, virtual in tests. */
export interface DriverPorts {
  /** The launcher's own environment: drivers read providers' keys from it, by the names that the spec gives. */
  env: NodeJS.ProcessEnv;
  clock: Clock;
  fetch: Fetch;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  random: () => number;
  /** The folder where drivers of this machine keep what must survive a restart of the launcher. */
  stateDir: string;
  log: Log;
}

/**
 * Makes a driver. @throws UserError when the spec cannot be used here: a variable with a key is not set, or the daemon
 * does not exist
 */
export type MakeDriver<Kind extends ProviderSpec['driver'] = ProviderSpec['driver']> = (
  spec: Extract<ProviderSpec, { driver: Kind }>,
  ports: DriverPorts,
) => Driver | Promise<Driver>;

/** The image with vLLM; those with other engines have the engine's name behind it. */
const IMAGE_NAME = 'ghcr.io/worker-vllm/worker-vllm';
/** The engines whose images have names of their own, as the targets of deploy/docker-bake.hcl. */
const OWN_IMAGES: readonly EngineName[] = ['sglang', 'llama-cpp', 'fastdeploy'];

/** Returns the image of a container: the pool's, else the released one with the pool's engine. */
export function imageOf({ image, env }: Pick<LaunchRequest, 'image' | 'env'>): string {
  if (image !== null) return image;
  const engine = OWN_IMAGES.find((name) => name === env.ENGINE);
  return `${IMAGE_NAME}${engine ? `-${engine}` : ''}:latest`;
}

/** The gigabytes of the container's disk if the candidate gives none: room for the image, and a model of some size. */
export const DEFAULT_DISK_GB = 60;

/** The seconds that a worker on a remote machine has to finish its jobs, unless its pool says otherwise. */
export const FAR_GRACE_SECONDS = 60;
/** Spare time for slow nodes, ms. */
const SPARE_MS = 8000;

/** Returns the seconds between SIGTERM and SIGKILL for a container with this environment. */
export function secondsToEnd({ CASOLA_SHUTDOWN_GRACE_PERIOD: given }: Record<string, string>): number {
  const grace = given === undefined ? FAR_GRACE_SECONDS : Number(given);
  // The worker itself refuses a value that is no number, in its own words.
  const graceMs = 1000 * (Number.isFinite(grace) ? grace : FAR_GRACE_SECONDS);
  return Math.ceil((longestWayDownMs(graceMs) + SPARE_MS) / 1000);
}
