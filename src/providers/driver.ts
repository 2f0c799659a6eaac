import type { Clock } from '../process/clock.ts';
import type { Fetch } from '../process/http.ts';
import type { Log } from '../process/log.ts';
import type { LaunchOutcome, Machine } from '../scheduler/rpc.ts';
import type { ProviderSpec } from '../scheduler/spec.ts';

/**
 * Where machines come from. A driver is stateless: what it launched is in the provider's list by its name, and all that
 * is remembered is in the scheduler. Every call ends within its time limit; a call whose effect is not known answers
 * `unknown`, never an error and never a guess.
 */
export interface Driver {
  /**
   * Starts a container under `request.name`. Asks by name first where `request.may_exist`, and never makes a second one
   * of a name: it answers with the one there is.
   */
  launch(request: LaunchRequest): Promise<LaunchOutcome>;
  /**
   * Everything whose name begins with `prefix`, all pages. Ended ones are listed as long as the provider shows them.
   * @throws Error when the list is not complete: a provider that does not answer has not lost its machines
   */
  list(prefix: string): Promise<Machine[]>;
  /**
   * Ends it, whatever state it is in. `terminated` says that it is gone, now or before; while it is still there, however
   * long that lasts, the answer is `terminating`, and the same order asks again. Without an external id it ends every
   * machine of exactly that name. Never an order to anything else.
   */
  terminate(machine: MachineKey): Promise<LaunchOutcome>;
  /** US dollars an hour for one GPU, by instance type, where the provider tells. */
  prices?(instance_types: string[]): Promise<{ instance_type: string; price_per_hour: number }[]>;
  /** Lets go of connections and timers. Machines run on. */
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
  /** Not accepted above this, US dollars an hour; null: any. */
  price_per_hour: number | null;
  image: string | null;
  /** The container's whole environment: CASOLA_INSTANCE_ID is `name`. Secrets are in it: never logged. */
  env: Record<string, string>;
}

/** What drivers are handed: real in production, virtual in tests. */
export interface DriverPorts {
  /** The launcher's own environment: keys of providers are read from it, by the names that the spec gives. */
  env: NodeJS.ProcessEnv;
  clock: Clock;
  fetch: Fetch;
  /** 0 (inclusive) to 1 (exclusive). */
  random: () => number;
  /** Where drivers of this machine keep what must survive a restart of the launcher. */
  stateDir: string;
  log: Log;
}

/** @throws UserError when the spec cannot be used here: a variable with a key is not set, there is no such daemon */
export type MakeDriver<Kind extends ProviderSpec['driver'] = ProviderSpec['driver']> = (
  spec: Extract<ProviderSpec, { driver: Kind }>,
  ports: DriverPorts,
) => Driver | Promise<Driver>;
