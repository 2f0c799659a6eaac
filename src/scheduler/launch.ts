import type { FailureCause, LaunchState } from '../protocol/index.ts';

export type { FailureCause, LaunchState };

/**
 * One machine that the scheduler wants or has wanted: written before any provider is called, kept until it is known to
 * be gone. Its name at the provider, `nameOf`, is also its worker's id, so the provider's list, the worker's
 * registration and this row join on one key whichever of the three is missing.
 *
 * ```
 * intended    → requested                       a launcher has the order
 *             → gone                            no longer wanted before anybody took the order
 * requested   → accepted                        the provider gave an id, or its list shows the name
 *             → registered                      the worker dialled the queue before anybody told its id
 *             → terminating                     no longer wanted: it may exist
 *             → failed(no_capacity | rejected)  the provider said no
 *             → failed(vanished)                two complete lists, at least 60 s apart, do not show the name
 * accepted    → registered                      the worker dialled the queue
 *             → terminating                     start deadline passed, container ended, or no longer wanted
 * registered  → ready                           its engine is healthy: it has slots
 *             → terminating
 * ready       → draining                        not needed: the queue gives it no more jobs
 *             → terminating                     it failed, or its provider lost it
 * draining    → ready                           needed again before it was terminated
 *             → terminating                     it runs nothing any more, or its drain limit passed
 * terminating → gone                            the provider said so, or two complete lists do not show it
 *             → failed(cause)                   the same, where a cause was noted on the way
 * ```
 * `gone` and `failed` are final. Whatever state it is in once it was asked for, what two complete lists do not show is
 * gone or failed.
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

export interface Launch {
  /** Ten lower-case letters and digits. */
  id: string;
  /** `nameOf(installation, config_id, id)`. */
  name: string;
  config_id: string;
  /** Key of `providers` in the spec. */
  provider: string;
  kind: string;
  state: LaunchState;
  state_at: number;
  /** What the rule wrote it for, one sentence. */
  reason: string;
  /** US dollars an hour. */
  price_per_hour: number;
  external_id: string | null;
  /** Epoch ms of each step that was reached, by the queue's clock; `started_at` and `ended_at` by the provider's. */
  intended_at: number;
  requested_at: number | null;
  accepted_at: number | null;
  started_at: number | null;
  registered_at: number | null;
  ready_at: number | null;
  draining_at: number | null;
  terminating_at: number | null;
  ended_at: number | null;
  /** Of one that failed, or is being terminated because it failed. */
  cause: FailureCause | null;
  exit_code: number | null;
  /** What the provider or the container said last. */
  detail: string | null;
  /** Counts orders given out for it, so that an answer to an older order is told from one to the newest. */
  order: number;
  /** Complete lists in a row that did not show it, and when the first of them was made. */
  missed_lists: number;
  missed_since: number | null;
}

export const ALIVE_STATES = [
  'intended',
  'requested',
  'accepted',
  'registered',
  'ready',
  'draining',
  'terminating',
] as const satisfies LaunchState[];

/** At most 60 characters: what every provider takes. */
export function nameOf(installation: string, configId: string, id: string): string {
  return `wv-${installation}-${configId.slice(0, 32)}-${id}`;
}

/** Every name of an installation begins so, and no name of another. */
export function prefixOf(installation: string): string {
  return `wv-${installation}-`;
}
