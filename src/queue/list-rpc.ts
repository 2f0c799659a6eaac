import type { JobView } from '../protocol/index.ts';

/** Lists of jobs and of settlements, as the gateway asks a queue for them. */

/** Which jobs, and how many. Null: any. Times in epoch ms. */
export interface JobListWanted {
  filter: { state: string | null; config_id: string | null; job_type: string | null };
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
  next: { created_at: number; seq: number } | null;
}

/** A job in a list: without payload and result, its error in short. */
export type ListedJob = Omit<JobView, 'fence_token' | 'result' | 'error' | 'attempt_errors'> & {
  error: { code: string; message: string } | null;
};

export interface SettlementsWanted {
  /** The number of the last settlement that is known; null: only news. */
  after: number | null;
  config_id: string | null;
  wait_ms: number;
  /** Whose jobs; null: everybody's. */
  viewer: string | null;
}

/** A job that was settled. */
export interface Settlement {
  /** Grows with every settlement of the queue. */
  n: number;
  id: string;
  job_type: string;
  config_id: string;
  state: JobView['state'];
  attempts: number;
  worker_id: string | null;
  created_at: string;
  settled_at: string;
  error: { code: string; message: string } | null;
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
  /** So many wait already. */
  | { ok: false; most: number };
