import type { ListedJob, SettlementEvent } from '../protocol/index.ts';

/** Lists of jobs and of settlements, as the gateway asks a queue for them. */

/** Which jobs a list shows. Null: any. */
export interface JobFilter {
  state: string | null;
  config_id: string | null;
  job_type: string | null;
  /** Its tenant; null: any. */
  tenant: string | null;
  /** The worker that had it last. */
  worker_id: string | null;
  /** Of the error with which it ended. */
  error_code: string | null;
}

/** A place in a list: of all jobs, newest first, or of the jobs whose ids begin alike, by id. */
type ListPlace = { created_at: number; seq: number } | { id: string };

/** What is done to all jobs that match a filter. */
export type JobsAction = 'cancel' | 'retry';

/** Which jobs, and how many. Null: any. Times in epoch ms. */
export interface JobListWanted {
  filter: JobFilter;
  /** What its id begins with; then they come in the order of their ids. */
  id_prefix: string | null;
  since: number | null;
  /** Not included. */
  until: number | null;
  /** The `next` of the page before; null: the first page. */
  before: JobPage['next'];
  limit: number;
  /** Whose jobs; null: everybody's. */
  viewer: string | null;
}

export interface JobPage {
  jobs: ListedJob[];
  /** Where the next page begins; null: there is nothing more. A page before may be empty. */
  next: ListPlace | null;
}

export interface SettlementsWanted {
  /** The number of the last settlement that is known; null: only news. */
  after: number | null;
  config_id: string | null;
  wait_ms: number;
  /** Whose jobs; null: everybody's. */
  viewer: string | null;
}

/** A job that was settled. */
export interface Settlement extends SettlementEvent {
  /** Grows with every settlement of the queue. */
  n: number;
}

export type SettlementsAnswer =
  | {
      ok: true;
      settlements: Settlement[];
      /** The number to go on from. */
      up_to: number;
      /** Some may be missing: their jobs were forgotten, or the number is of no settlement of this queue. */
      missed: 'forgotten' | 'unknown' | null;
    }
  /** As many callers as may wait already do: this is the limit. */
  | { ok: false; most: number };
