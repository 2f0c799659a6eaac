import type { LaunchOutcome, Machine } from '../scheduler/rpc.ts';

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
  /** Ends it, whatever state it is in; one that is gone already is `terminated`. Never an order to anything else. */
  terminate(machine: { name: string; external_id: string | null }): Promise<LaunchOutcome>;
  /** US dollars an hour by kind, where the provider tells. */
  prices?(kinds: string[]): Promise<{ kind: string; price_per_hour: number }[]>;
}

export interface LaunchRequest {
  name: string;
  may_exist: boolean;
  kind: string;
  gpus: number;
  disk_gb: number | null;
  /** Not accepted above this, US dollars an hour; null: any. */
  price_per_hour: number | null;
  image: string | null;
  /** The container's whole environment: CASOLA_INSTANCE_ID is `name`. Secrets are in it: never logged. */
  env: Record<string, string>;
}
