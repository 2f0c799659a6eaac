import { COLUMNS, type StoredJob } from './jobs-table.ts';
import type { Sql } from './ports.ts';
import { rows } from './rows.ts';

/** Which jobs a list holds. */
export interface ListFilter {
  state: string | null;
  config_id: string | null;
  job_type: string | null;
  tenant: string | null;
}

/** A place in the order of all jobs, newest first. */
export interface ListPlace {
  created_at: number;
  seq: number;
}

/**
 * Of the `most` jobs that follow a place, those that the filter lets through; what the index tells of a job decides
 * without a look at its row.
 * @param since epoch ms
 * @returns `last`: the oldest that was looked at; null: there were fewer
 */
export function jobsBefore(
  sql: Sql,
  { created_at, seq }: ListPlace,
  since: number,
  filter: ListFilter,
  most: number,
): { found: ListPlace[]; last: ListPlace | null } {
  const looked = rows<ListPlace & Omit<ListFilter, 'state'>>(
    sql,
    `SELECT created_at, seq, config_id, tenant, job_type FROM jobs INDEXED BY jobs_listed
       WHERE (created_at, seq) < (?, ?) AND created_at >= ? ORDER BY created_at DESC, seq DESC LIMIT ?`,
    created_at,
    seq,
    since,
    most,
  );
  const found = looked.filter(
    (job) =>
      (filter.config_id === null || job.config_id === filter.config_id) &&
      (filter.tenant === null || job.tenant === filter.tenant) &&
      (filter.job_type === null || job.job_type === filter.job_type),
  );
  return { found, last: looked.length < most ? null : looked.at(-1)! };
}

/** Those of the jobs that are in a state; any where it is null. */
export function listedJobs(sql: Sql, places: readonly ListPlace[], state: string | null): StoredJob[] {
  return rows<StoredJob>(
    sql,
    `SELECT ${COLUMNS} FROM jobs WHERE seq IN (SELECT value FROM json_each(?)) AND (?2 IS NULL OR state = ?2)
       ORDER BY created_at DESC, seq DESC`,
    JSON.stringify(places.map(({ seq }) => seq)),
    state,
  );
}
