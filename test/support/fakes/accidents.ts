/**
 * What goes wrong at providers, a switch each; docs/providers.md has a row for each with what drivers do about it.
 * Counts are of calls to come: `Infinity` until it is switched off.
 */
export interface Accidents {
  /** Creates that find no machine of the instance type. */
  no_capacity: number;
  /** Creates that make the machine and answer 5xx. */
  created_but_5xx: number;
  /** Creates that make the machine, stopped and billed for its disk, and answer with an error that names it. */
  created_but_error: number;
  /** Calls of any kind that are answered 429. */
  throttled: number;
  /** Least time between two calls of one kind, ms: those that come sooner are answered 429. */
  min_interval_ms: number;
  /** Lists show what was this long ago. */
  list_lag_ms: number;
  /** From the create until the container runs. */
  start_takes_ms: number;
  /** The machine never gets beyond loading. */
  stuck_loading: boolean;
  /** A container that ends is started again, whatever its exit code. */
  restarts_for_ever: boolean;
  /** From the destroy until it is gone: it runs, and is paid for meanwhile. */
  end_takes_ms: number;
  /** Destroys that answer 5xx and leave the machine. */
  destroy_fails: number;
  /** Nothing can be created for lack of money. */
  no_money: boolean;
  /** The provider's clock against ours. */
  clock_skew_ms: number;
  /** No call is answered at all. */
  is_down: boolean;
  /** Machines are in a state whose name no driver has heard of. */
  odd_state: boolean;
}

export const NO_ACCIDENTS: Readonly<Accidents> = {
  no_capacity: 0,
  created_but_5xx: 0,
  created_but_error: 0,
  throttled: 0,
  min_interval_ms: 0,
  list_lag_ms: 0,
  start_takes_ms: 0,
  stuck_loading: false,
  restarts_for_ever: false,
  end_takes_ms: 0,
  destroy_fails: 0,
  no_money: false,
  clock_skew_ms: 0,
  is_down: false,
  odd_state: false,
};
