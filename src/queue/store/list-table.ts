import type { StoredJob } from '../job.ts';
import type { JobFilter } from '../rpc.ts';
import { COLUMNS, jobs } from './jobs-table.ts';
import type { Sql } from './ports.ts';
import { rows } from './ports.ts';

/** The columns of a job that an index holds, known without a look at its row. */
export interface Looked {
  /** The job's id; empty where jobs are not in the order of their ids, since other indexes do not hold it. */
  id: string;
  created_at: number;
  seq: number;
}

type Indexed = Looked & Pick<JobFilter, 'config_id' | 'tenant' | 'job_type'>;

/** The jobs that were looked at, in the requested order. */
export interface Look {
  /** The jobs that pass the filter, as far as the index shows. */
  found: Looked[];
  /** The job that was looked at last; null if there are no more. */
  last: Looked | null;
}

/**
 * The condition of an index of its own for jobs that ended badly: they are few, so it finds them however many went
 * well. `cancelled`, `expired` and `failed` come before the other states in the alphabet.
 */
const ENDED_BADLY = `state < 'leased'`;

/** Returns the jobs that pass the filter among the `most` that follow a place, newest first. @param since epoch ms */
export function jobsBefore(
  sql: Sql,
  { created_at, seq }: { created_at: number; seq: number },
  since: number,
  filter: JobFilter,
  most: number,
): Look {
  const looked = rows<Indexed>(
    sql,
    `SELECT '' AS id, created_at, seq, config_id, tenant, job_type FROM ${sourceFor(filter)}
       AND (created_at, seq) < (?, ?) AND created_at >= ? ORDER BY created_at DESC, seq DESC LIMIT ?`,
    created_at,
    seq,
    since,
    most,
  );
  return sifted(looked, filter, most);
}

/**
 * Returns the jobs that pass the filter among the next `most` whose ids begin alike, in the order of their ids.
 * @param after the id of the last job of the look before; null to begin with the first
 */
export function jobsByPrefix(
  sql: Sql,
  prefix: string,
  after: string | null,
  { since, until }: { since: number; until: number },
  filter: JobFilter,
  most: number,
): Look {
  const looked = rows<Indexed>(
    sql,
    `SELECT id, created_at, seq, config_id, tenant, job_type FROM jobs
       WHERE id >= ? AND id < ? AND id > ? AND created_at >= ? AND created_at < ? ORDER BY id LIMIT ?`,
    prefix,
    // Ids are ASCII, so every id with this prefix comes before this text.
    `${prefix}\u{10ffff}`,
    after ?? '',
    since,
    until,
    most,
  );
  return sifted(looked, filter, most);
}

/** Returns the jobs at these places that pass the filter, in the order of the places. */
export function listedJobs(sql: Sql, places: readonly Looked[], filter: JobFilter): StoredJob[] {
  const found = jobs(
    sql,
    `SELECT ${COLUMNS} FROM jobs WHERE seq IN (SELECT value FROM json_each(?)) AND (?2 IS NULL OR state = ?2)
       AND (?3 IS NULL OR worker_id = ?3) AND (?4 IS NULL OR json_extract(error, '$.code') = ?4)`,
    JSON.stringify(places.map(({ seq }) => seq)),
    filter.state,
    filter.worker_id,
    filter.error_code,
  );
  const bySeq = new Map(found.map((job) => [job.seq, job]));
  return places.map(({ seq }) => bySeq.get(seq)).filter((job) => job !== undefined);
}

/** Returns the index that has fewest jobs to look at. Jobs that run are never more than there are slots. */
function sourceFor({ state, error_code }: JobFilter): string {
  if (state === 'leased') return `jobs INDEXED BY jobs_leased WHERE state = 'leased'`;
  if (state === 'failed' || state === 'cancelled' || state === 'expired') {
    return `jobs INDEXED BY jobs_ended_badly WHERE ${ENDED_BADLY} AND state = '${state}'`;
  }
  if (error_code !== null) return `jobs INDEXED BY jobs_ended_badly WHERE ${ENDED_BADLY}`;
  return 'jobs INDEXED BY jobs_listed WHERE true';
}

function sifted(looked: readonly Indexed[], filter: JobFilter, most: number): Look {
  const found = looked.filter(
    (job) =>
      (filter.config_id === null || job.config_id === filter.config_id) &&
      (filter.tenant === null || job.tenant === filter.tenant) &&
      (filter.job_type === null || job.job_type === filter.job_type),
  );
  return { found, last: looked.length < most ? null : looked.at(-1)! };
}
