import type { StoredJob } from './jobs-table.ts';
import type { Sql } from './ports.ts';
import { rows } from './rows.ts';

/** Statements on the limits of tokens, and on the stored jobs that they hold back. */

/** The `run_after` of a job that its token's limits hold back, and that they alone admit. A clock set back moves it. */
export const HELD = 8_000_000_000_000_000;
/** The condition in statements, as it stands in the partial index. */
const IS_HELD = `state = 'pending' AND run_after >= 4000000000000000`;

export function isHeld({ run_after }: { run_after: number | null }): boolean {
  return run_after !== null && run_after >= HELD / 2;
}

interface LimitsRow {
  token_name: string;
  tenant: string;
  /** JSON of Limits. */
  limits: string;
  /** JSON of AccountState. */
  state: string;
  /** JSON of the admitted requests that had not ended, which `state` has counted: id and epoch ms of each. */
  let_in: string;
}

export function readLimits(sql: Sql): LimitsRow[] {
  return rows<LimitsRow>(sql, `SELECT token_name, tenant, limits, state, let_in FROM limits`);
}

export function writeLimits(sql: Sql, { token_name, tenant, limits, state, let_in }: LimitsRow): void {
  sql.exec(
    `INSERT OR REPLACE INTO limits (token_name, tenant, limits, state, let_in) VALUES (?, ?, ?, ?, ?)`,
    token_name,
    tenant,
    limits,
    state,
    let_in,
  );
}

export function deleteLimits(sql: Sql, tokenName: string): void {
  sql.exec(`DELETE FROM limits WHERE token_name = ?`, tokenName);
}

/** Counts the jobs that are held back, by token, pool and priority. */
export function countHeld(
  sql: Sql,
): { token_name: string; config_id: string; priority: number; n: number }[] {
  return rows(
    sql,
    `SELECT token_name, config_id, priority, count(*) AS n FROM jobs INDEXED BY jobs_held
     WHERE ${IS_HELD} GROUP BY token_name, config_id, priority`,
  );
}

/** Returns the oldest job of a token, a pool and a priority that is held back. */
export function nextHeldId(
  sql: Sql,
  { token_name, config_id, priority }: Pick<StoredJob, 'token_name' | 'config_id' | 'priority'>,
): string | null {
  const [next] = rows<{ id: string }>(
    sql,
    `SELECT id FROM jobs INDEXED BY jobs_held
     WHERE ${IS_HELD} AND token_name = ? AND config_id = ? AND priority = ? ORDER BY seq LIMIT 1`,
    token_name,
    config_id,
    priority,
  );
  return next?.id ?? null;
}

/** Holds a pending job back. */
export function holdJob(sql: Sql, id: string): void {
  sql.exec(`UPDATE jobs SET run_after = ? WHERE id = ? AND state = 'pending'`, HELD, id);
}

/** Makes a job ready that was held back. */
export function unholdJob(sql: Sql, id: string): void {
  sql.exec(`UPDATE jobs SET run_after = NULL WHERE id = ? AND ${IS_HELD}`, id);
}

/** Returns the stored jobs of tokens with limits that run, or are next in their lines for a slot. */
export function limitedJobs(
  sql: Sql,
): { id: string; token_name: string; config_id: string; priority: number; cost: string; runs: 0 | 1 }[] {
  return rows(
    sql,
    `SELECT id, token_name, config_id, priority, cost, state = 'leased' AS runs FROM jobs
     INDEXED BY jobs_limited WHERE cost IS NOT NULL AND settled_at IS NULL
       AND (state = 'leased' OR (run_after IS NULL AND leased_at IS NULL))`,
  );
}
