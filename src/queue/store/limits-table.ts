import { readExtras, type StoredJob } from './jobs-table.ts';
import type { Sql } from './ports.ts';
import { rows } from './rows.ts';

/** Statements on the limits of tokens, and on the stored jobs that hold a part of them. */

interface LimitsRow {
  token_name: string;
  tenant: string;
  /** JSON of Limits. */
  limits: string;
  /** JSON of AccountState. */
  state: string;
  /** JSON of the admitted requests that had not ended, which `state` has counted: id and epoch ms of each. */
  admitted: string;
}

export function readLimits(sql: Sql): LimitsRow[] {
  return rows<LimitsRow>(sql, `SELECT token_name, tenant, limits, state, admitted FROM limits`);
}

export function writeLimits(sql: Sql, { token_name, tenant, limits, state, admitted }: LimitsRow): void {
  sql.exec(
    `INSERT OR REPLACE INTO limits (token_name, tenant, limits, state, admitted) VALUES (?, ?, ?, ?, ?)`,
    token_name,
    tenant,
    limits,
    state,
    admitted,
  );
}

export function deleteLimits(sql: Sql, tokenName: string): void {
  sql.exec(`DELETE FROM limits WHERE token_name = ?`, tokenName);
}

/** Returns the stored jobs of tokens with limits that run, or are next in their lines for a slot. */
export function limitedJobs(
  sql: Sql,
): (Pick<StoredJob, 'id' | 'config_id' | 'priority' | 'extras'> & { token_name: string; runs: 0 | 1 })[] {
  return rows<{
    id: string;
    token_name: string;
    config_id: string;
    priority: number;
    extras: string;
    runs: 0 | 1;
  }>(
    sql,
    `SELECT id, token_name, config_id, priority, extras, state = 'leased' AS runs FROM jobs
     INDEXED BY jobs_limited WHERE is_limited = 1 AND settled_at IS NULL
       AND (state = 'leased' OR (run_after IS NULL AND is_held = 0 AND leased_at IS NULL))`,
  ).map((job) => ({ ...job, extras: readExtras(job.extras) }));
}
