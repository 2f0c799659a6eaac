import { type FailureCause, isEnding, isFinal, type Launch, type LaunchState } from '../protocol/scaling.ts';

export { type FailureCause, isEnding, isFinal, type Launch, type LaunchState };

/**
 * The steps between the states of a launch: one machine that the scheduler wants or has wanted. A launch is written
 * before any provider is called, and kept until its machine is known to be gone. Its name at the provider, `nameOf`,
 * is also its worker's id, so the provider's list, the worker's registration and this row join on one key whichever of
 * the three is missing.
 *
 * ```
 * intended    → requested                       a launcher has the order
 *             → gone                            no longer wanted before a launcher took the order
 * requested   → accepted                        the provider gave an id, or its list shows the name
 *             → registered                      the worker dialled the queue before a launcher told its id
 *             → terminating                     no longer wanted: it may exist
 *             → failed(no_capacity | rejected)  the provider said no
 *             → failed(vanished)                two complete lists, `listsApartMs` apart, do not show the name
 * accepted    → registered                      the worker dialled the queue
 *             → terminating                     start deadline passed, container ended, or no longer wanted
 * registered  → ready                           its engine is healthy: it has slots
 *             → terminating
 * ready       → draining                        not needed: the queue gives it no more jobs
 *             → terminating                     it failed, or its provider lost it
 * draining    → ready                           needed again before it was terminated
 *             → terminating                     it runs nothing any more, or its drain limit passed
 * terminating → gone                            the provider said that it is gone, or two complete lists do not show it
 *             → failed(cause)                   the same, where a cause was noted on the way
 * ```
 * An orphan begins as `terminating`: a machine under one of our names that no launch wants. Its order goes out once a
 * second list, `listsApartMs` later, shows it too; when it is gone its row is deleted. A launch that is requested or
 * accepted, and whose machine was made but not started, is ordered again. `gone` and `failed` are final. A launch that
 * was requested and that two complete lists do not show is gone or failed, whatever its state.
 */
export const TRANSITIONS: Record<LaunchState, readonly LaunchState[]> = {
  intended: ['requested', 'gone'],
  requested: ['accepted', 'registered', 'terminating', 'gone', 'failed'],
  accepted: ['registered', 'terminating', 'gone', 'failed'],
  registered: ['ready', 'terminating', 'gone', 'failed'],
  ready: ['draining', 'terminating', 'gone', 'failed'],
  draining: ['ready', 'terminating', 'gone', 'failed'],
  terminating: ['gone', 'failed'],
  gone: [],
  failed: [],
};

/** Returns a machine's name of at most 60 characters, which every provider takes. */
export function nameOf(installation: string, configId: string, id: string): string {
  return `wv-${installation}-${configId.slice(0, 32)}-${id}`;
}

/** Returns the pool in a machine's name, cut to 32 characters. */
export function poolIn(name: string, installation: string): string {
  return name.slice(prefixOf(installation).length, name.lastIndexOf('-'));
}

/** Returns the beginning of every name of this installation, and of no name of another. */
export function prefixOf(installation: string): string {
  return `wv-${installation}-`;
}

/**
 * Two complete lists that do not show a machine, or show one that no launch wants, count if they are this many ms
 * apart, since providers' lists lag. Lists of a launcher's own machine do not lag.
 */
const LISTS_APART_MS = { elsewhere: 60_000, onHost: 5000 };

export function listsApartMs(host: string | null): number {
  return host === null ? LISTS_APART_MS.elsewhere : LISTS_APART_MS.onHost;
}

/** A launch with the fields that only orders and the reaper use. */
export interface LaunchRecord extends Launch {
  /** Whether no launch made the machine: a list showed it under one of our names. */
  is_orphan: boolean;
  /**
   * The number of orders given out for the launch; it tells an answer to an older order from an answer to the newest.
   */
  order: number;
  /**
   * The number of the newest order to end that was given by the machine's name alone, since its id was not known; null:
   * there was none.
   */
  order_by_name: number | null;
  /**
   * The number of complete lists in a row that did not show the machine; `missed_since` is when the first of them was
   * made.
   */
  missed_lists: number;
  missed_since: number | null;
  /** The machine as the order names it. */
  machine: { instance_type: string; gpus: number; disk_gb: number | null; price_per_hour: number | null };
  /** The numbers behind the launch's reason, in words. */
  inputs: string;
  /** Whether it was drained to make room for its replacement, which is launched once it is gone. */
  makes_room: boolean;
  /** The host whose launcher has the order, if the provider is bound to a host; null if any launcher will do. */
  host: string | null;
  /** When the launch's order is due, or due again; null: nothing is to be ordered. */
  order_due_at: number | null;
  /** When the newest order was given out. */
  ordered_at: number | null;
  /** When the queue answered that the worker runs nothing and gets no more jobs, so that it may be terminated. */
  clear_at: number | null;
}

/** The field that takes the time at which a launch reaches a state. */
const REACHED = {
  requested: 'requested_at',
  accepted: 'accepted_at',
  registered: 'registered_at',
  ready: 'ready_at',
  draining: 'draining_at',
  terminating: 'terminating_at',
} as const satisfies Partial<Record<LaunchState, keyof Launch>>;

type Decided = Pick<
  LaunchRecord,
  | 'id'
  | 'name'
  | 'config_id'
  | 'provider'
  | 'machine'
  | 'price_per_hour'
  | 'replaces'
  | 'is_spot'
  | 'is_stand_in'
  | 'reason'
  | 'inputs'
  | 'version'
>;
type Begun = Decided & Pick<LaunchRecord, 'instance_type' | 'state' | 'state_at' | 'intended_at'>;

/** The fields of a launch before anything is known of it. */
const NOTHING_KNOWN: Omit<LaunchRecord, keyof Begun> = {
  is_orphan: false,
  external_id: null,
  requested_at: null,
  accepted_at: null,
  started_at: null,
  registered_at: null,
  ready_at: null,
  draining_at: null,
  terminating_at: null,
  ended_at: null,
  cause: null,
  exit_code: null,
  detail: null,
  order: 0,
  order_by_name: null,
  missed_lists: 0,
  missed_since: null,
  makes_room: false,
  host: null,
  order_due_at: null,
  ordered_at: null,
  clear_at: null,
};

/** Returns a launch as it was stored. One that an earlier version has stored lacks the newest fields. */
export function storedLaunch(json: string): LaunchRecord {
  const stored = JSON.parse(json) as LaunchRecord;
  const { is_spot = false, is_stand_in = false, order_by_name = null, ...launch } = stored;
  return { ...launch, is_spot, is_stand_in, order_by_name };
}

export function newLaunch(of: Decided, now: number): LaunchRecord {
  const { instance_type } = of.machine;
  return {
    ...NOTHING_KNOWN,
    ...of,
    instance_type,
    state: 'intended',
    state_at: now,
    intended_at: now,
    order_due_at: now,
  };
}

/**
 * Returns the row of a machine under one of our names that no launch wants. The machine is terminated once a second
 * list shows it.
 * @param seenAt when the first list that shows the machine was made, epoch ms
 */
export function newOrphan(
  seen: Pick<LaunchRecord, 'id' | 'name' | 'config_id' | 'provider' | 'host' | 'external_id'>,
  seenAt: number,
): LaunchRecord {
  return {
    ...NOTHING_KNOWN,
    ...seen,
    is_orphan: true,
    instance_type: '',
    machine: { instance_type: '', gpus: 0, disk_gb: null, price_per_hour: null },
    price_per_hour: 0,
    reason: 'Its provider lists it, and no launch wants it.',
    inputs: '',
    replaces: null,
    version: null,
    is_spot: false,
    is_stand_in: false,
    state: 'terminating',
    state_at: seenAt,
    intended_at: seenAt,
    terminating_at: seenAt,
  };
}

/**
 * Returns the launch in another state, with the time of the step.
 * @throws Error for a step that TRANSITIONS does not have
 */
export function moved<L extends LaunchRecord>(
  launch: L,
  to: LaunchState,
  now: number,
  more: Partial<LaunchRecord> = {},
): L {
  if (!TRANSITIONS[launch.state].includes(to)) {
    throw new Error(`a launch that is ${launch.state} cannot become ${to} (${launch.name})`);
  }
  const next = { ...launch, state: to, state_at: now, missed_lists: 0, missed_since: null, ...more };
  const reached = to in REACHED ? REACHED[to as keyof typeof REACHED] : null;
  // A worker that is taken back keeps the time at which it was first ready.
  if (reached && next[reached] === null) next[reached] = now;
  if (isFinal(next)) next.ended_at ??= now;
  return next;
}

/** Returns whether a list or a connection has shown the launch's machine. */
export function exists({ external_id, registered_at }: Launch): boolean {
  return external_id !== null || registered_at !== null;
}

/** Returns the launch as ended, once nothing of it is left: `failed` if a cause was noted, else `gone`. */
export function ended<L extends LaunchRecord>(
  launch: L,
  now: number,
  cause: FailureCause | null = launch.cause,
): L {
  return moved(launch, cause === null ? 'gone' : 'failed', now, { cause, ...NOTHING_DUE });
}

const NOTHING_DUE = { order_due_at: null } as const;

/**
 * Returns the launch as one to terminate. The order waits until the queue has answered that its worker runs nothing.
 */
export function terminated<L extends LaunchRecord>(
  launch: L,
  now: number,
  more: Partial<LaunchRecord> = {},
): L {
  if (launch.state === 'intended') return ended(launch, now, null);
  return moved(launch, 'terminating', now, { order_due_at: now, ...more });
}

const HOUR_MS = 3_600_000;

/** Returns how long a launch was paid for within a span of time, hours. */
export function hoursWithin(launch: Launch, from: number, to: number): number {
  const since = launch.started_at ?? launch.accepted_at;
  if (since === null) return 0;
  const begin = Math.max(since, from);
  const end = Math.min(launch.ended_at ?? to, to);
  return Math.max(0, end - begin) / HOUR_MS;
}
