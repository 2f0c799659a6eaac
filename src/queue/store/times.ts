import { OVERDUE } from '../job.ts';
import type { Sql } from './ports.ts';
import { row } from './ports.ts';

/** Statements on the times that rows hold, for when the queue stood still or its clock is set back. All in epoch ms. */

/** Stores until when the queue lived, since nothing else that is stored shows it as well. @param at epoch ms */
export function rememberTime(sql: Sql, at: number): void {
  sql.exec(`INSERT OR REPLACE INTO meta (key, value) VALUES ('latest_time', ?)`, at);
}

/** Returns the epoch ms of the latest thing known to have happened, or null. The runtime joins five selects at most. */
export function latestTime(sql: Sql): number | null {
  const latest = row<{ at: number | null }>(
    sql,
    `SELECT max(at) AS at FROM (
       SELECT CAST(value AS INTEGER) AS at FROM meta WHERE key = 'latest_time'
       UNION ALL SELECT settled_at FROM (SELECT settled_at FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement DESC LIMIT 1)
       UNION ALL SELECT created_at FROM (SELECT created_at FROM jobs ORDER BY seq DESC LIMIT 1)
       UNION ALL SELECT max(leased_at) FROM jobs WHERE state = 'leased'
       UNION ALL SELECT max(at) FROM ledger WHERE job IN (
         SELECT seq FROM jobs WHERE state = 'leased'
         UNION ALL SELECT seq FROM jobs WHERE state = 'pending' AND run_after IS NOT NULL
         UNION ALL SELECT seq FROM jobs WHERE state = 'pending' AND is_held = 1))`,
  );
  return latest?.at ?? null;
}

/**
 * Moves times back with the clock: jobs not settled, or settled since, keep their distances, and no time lies ahead.
 */
export function moveTimesBack(sql: Sql, byMs: number, now: number): void {
  const columns = ['created_at', 'leased_at', 'started_at', 'first_token_at', 'settled_at'];
  const moving = [...columns, 'run_after', 'deadline_at', 'lease_expires_at'];
  const concerned = 'settled_at IS NULL OR settled_at > ?';
  sql.exec(`UPDATE ledger SET at = at - ? WHERE job IN (SELECT seq FROM jobs WHERE ${concerned})`, byMs, now);
  sql.exec(
    `UPDATE jobs SET ${moving.map((column) => `${column} = ${column} - ?`).join(', ')} WHERE ${concerned}`,
    ...moving.map(() => byMs),
    now,
  );
  sql.exec(`UPDATE webhooks SET due_at = due_at - ?`, byMs);
  sql.exec(`UPDATE sessions SET heard_at = heard_at - ?`, byMs);
  sql.exec(`DELETE FROM meta WHERE key = 'latest_time'`);
}

/** Postpones all leases but those that were found overdue, which are judged at their new time. */
export function postponeLeases(sql: Sql, byMs: number): void {
  sql.exec(
    `UPDATE jobs SET lease_expires_at = lease_expires_at + ? WHERE state = 'leased' AND lease_orphaned < ?`,
    byMs,
    OVERDUE,
  );
}
