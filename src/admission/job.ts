import type { RequestCost } from '../protocol/index.ts';
import type { Weighed } from './account.ts';
import type { OverLimit } from './scope.ts';

/** The cost that a job may have, as far as its caller's request shows. */
export interface Cost extends RequestCost {
  /** The model that the job names; null if it names none. */
  model: string | null;
  /** The model that answers where the job names none, or only its pool; left out if unknown or if it names one. */
  served?: string;
}

/** The cost of a job of which nothing was told. */
export const NO_COST: RequestCost = { tokens: 0 };

/** The fields that admission control looks at of a job of either mode. */
export interface Job {
  id: string;
  token_name: string | null;
  config_id: string;
  priority: number;
  /**
   * The features' data about the job. Without a cost in it, the job's token had no limits when the job was submitted.
   */
  readonly extras: { readonly cost?: Cost; readonly alias?: unknown };
}

/** A job that is a row of the queue's. */
export interface StoredJob extends Job {
  readonly mode: 'stored';
  /** 1 if the job is pending and held back. */
  is_held: 0 | 1;
  /** The beginning of the newest lease, epoch ms; null if there was none, so the job's request is not counted yet. */
  leased_at: number | null;
}

/** A job whose caller waits. */
export interface WaitingJob extends Job {
  readonly mode: 'waiting';
  submitted_at: number;
  /** The time at which the pending request is rejected for want of a free slot, epoch ms. */
  slot_by: number;
  /** Whether its caller did not say how long it waits. */
  waits_for_start: boolean;
  /** The limit that holds the request back; null if it is admitted. */
  held: OverLimit | null;
  /** The time when the request was admitted, epoch ms. */
  admitted_at: number | null;
  /**
   * Whether an earlier attempt at the request was admitted and is over: the request counts among those of its minute
   * already, but has to find room again.
   */
  readonly is_counted: boolean;
}

/** Returns what limits look at of a job. */
export function weigh({ id, extras, config_id }: Pick<Job, 'id' | 'extras' | 'config_id'>): Weighed {
  const { model = null, served, ...cost }: Partial<Cost> = extras.cost ?? {};
  const names = new Set([model, served, config_id].filter((name) => name !== null && name !== undefined));
  return { ...NO_COST, ...cost, id, names: [...names], ...(extras.alias !== undefined && { falls: true }) };
}
