import type { RequestRecord } from '../../protocol/index.ts';

/** Which requests a list shows. Null: any. Times in epoch ms. */
export interface RequestsWanted {
  filter: RequestFilter;
  /** What its id or its caller's name for it begins with. */
  id: string | null;
  /** In the message of its error, in either case. */
  text: string | null;
  /** Ended then or later, and before. */
  since: number | null;
  until: number | null;
  /** The `next` of the page before; null: the first page. */
  before: number | null;
  limit: number;
  /** Whose requests; null: everybody's. */
  viewer: string | null;
}

/** Columns that must be exactly this. */
export const REQUEST_FILTERS = [
  'outcome',
  'kind',
  'model',
  'config_id',
  'route',
  'tenant',
  'token_name',
  'worker_id',
  'error_code',
] as const;
export type RequestFilter = Record<(typeof REQUEST_FILTERS)[number], string | null> & {
  /** Only slow ones, or only others. */
  is_slow: boolean | null;
};

export interface RequestPage {
  requests: RequestRecord[];
  /** Where the next page begins; null: there is nothing more. A page before may be empty. */
  next: number | null;
}
