import { type ORPHANED, OVERDUE, type StoredJob } from '../job.ts';
import { COLUMNS, jobs } from './jobs-table.ts';
import type { Sql } from './ports.ts';

/** Statements on the leases of stored jobs, which are columns of the table of jobs. */

export function leaseJob(
  sql: Sql,
  id: string,
  lease: {
    fence_token: number;
    worker_id: string;
    leased_at: number;
    lease_expires_at: number;
    file_key: string | null;
  },
): void {
  sql.exec(
    `UPDATE jobs SET state = 'leased', fence_token = ?, worker_id = ?, leased_at = ?, lease_expires_at = ?,
       file_key = ?, result_file = NULL, started_at = NULL, first_token_at = NULL, lease_orphaned = 0, progress = NULL, status_message = NULL
     WHERE id = ? AND state = 'pending'`,
    lease.fence_token,
    lease.worker_id,
    lease.leased_at,
    lease.lease_expires_at,
    lease.file_key,
    id,
  );
}

/**
 * Extends a lease. Also takes back a job whose lease ran out, if no other worker got it: its fence token is the newest.
 */
export function extendLease(
  sql: Sql,
  id: string,
  fenceToken: number,
  workerId: string,
  expiresAt: number,
): void {
  sql.exec(
    `UPDATE jobs SET state = 'leased', worker_id = ?, lease_expires_at = ?, lease_orphaned = 0, run_after = NULL, is_held = 0
     WHERE id = ? AND fence_token = ? AND state IN ('leased', 'pending')`,
    workerId,
    expiresAt,
    id,
    fenceToken,
  );
}

export function leasedByWorker(sql: Sql, workerId: string): StoredJob[] {
  return jobs(sql, `SELECT ${COLUMNS} FROM jobs WHERE state = 'leased' AND worker_id = ?`, workerId);
}

export function leasedJobs(sql: Sql): StoredJob[] {
  return jobs(sql, `SELECT ${COLUMNS} FROM jobs WHERE state = 'leased'`);
}

/** Lets a lease expire later. @param isOverdue whether it was found overdue now, and expires at the new time */
export function postponeLease(sql: Sql, row: StoredJob, expiresAt: number, isOverdue: boolean): void {
  sql.exec(
    `UPDATE jobs SET lease_expires_at = ?, lease_orphaned = ? WHERE id = ? AND fence_token = ? AND state = 'leased'`,
    expiresAt,
    (row.lease_orphaned & ~OVERDUE) | (isOverdue ? OVERDUE : 0),
    row.id,
    row.fence_token,
  );
}

/** Marks a lease whose holder is gone, so that its missing close is counted once. */
export function orphanLease(
  sql: Sql,
  id: string,
  fenceToken: number,
  expiresAt: number,
  orphaned: (typeof ORPHANED)[keyof typeof ORPHANED],
): void {
  sql.exec(
    `UPDATE jobs SET lease_orphaned = ?, lease_expires_at = ? WHERE id = ? AND fence_token = ? AND state = 'leased'`,
    orphaned,
    expiresAt,
    id,
    fenceToken,
  );
}

export function leasesDue(sql: Sql, now: number): StoredJob[] {
  return jobs(
    sql,
    `SELECT ${COLUMNS} FROM jobs WHERE state = 'leased' AND lease_expires_at <= ? LIMIT 500`,
    now,
  );
}
