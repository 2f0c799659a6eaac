import type { ListedJob } from '../protocol/index.ts';

/** Lists of jobs, as the gateway asks a queue for them. */

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
