import type { Sql } from '../store/ports.ts';
import { rows } from '../store/rows.ts';

/** Statements on the steps of stored jobs that their rows do not keep (events/ledger.ts). */

/** One thing that happened to a job, `at` in epoch ms; for a stored job it is a row. */
export interface LedgerStep {
  at: number;
  step: string;
  attempt: number;
  fence_token: number;
  worker_id: string | null;
  detail: string | null;
}

/** Writes one step. @param job the job's `seq` @returns how many steps the job has had */
export function insertStep(sql: Sql, job: number, row: LedgerStep): number {
  const [written] = sql.exec(
    `INSERT INTO ledger (job, n, at, step, attempt, fence_token, worker_id, detail)
     VALUES (?1, (SELECT coalesce(max(n), 0) + 1 FROM ledger WHERE job = ?1), ?2, ?3, ?4, ?5, ?6, ?7) RETURNING n`,
    job,
    row.at,
    row.step,
    row.attempt,
    row.fence_token,
    row.worker_id,
    row.detail,
  );
  return Number(written?.n);
}

/** Deletes one step. @param n the number of the step, from 1 */
export function deleteStep(sql: Sql, job: number, n: number): void {
  sql.exec(`DELETE FROM ledger WHERE job = ? AND n = ?`, job, n);
}

/** Returns a job's steps in the order in which they were written. */
export function readSteps(sql: Sql, job: number): LedgerStep[] {
  const columns = 'at, step, attempt, fence_token, worker_id, detail';
  return rows(sql, `SELECT ${columns} FROM ledger WHERE job = ? ORDER BY n`, job);
}

/** Returns the names of one attempt's steps. */
export function stepsOfAttempt(sql: Sql, job: number, fenceToken: number): Set<string> {
  const query = `SELECT step FROM ledger WHERE job = ? AND fence_token = ?`;
  return new Set(rows<{ step: string }>(sql, query, job, fenceToken).map(({ step }) => step));
}

/** Deletes the steps of these jobs. @param seqs a JSON array of each job's `seq` */
export function forgetLedger(sql: Sql, seqs: string): void {
  sql.exec(`DELETE FROM ledger WHERE job IN (SELECT value FROM json_each(?))`, seqs);
}
