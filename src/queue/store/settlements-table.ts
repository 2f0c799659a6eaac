import type { Sql } from './ports.ts';
import { row, rows } from './ports.ts';

/**
 * Statements on settlements in their order. Each settlement has a number, written in the commit that settles its job,
 * so the order holds when the clock was set back.
 */

/** Returns the number of the newest settlement whose job is kept; 0 if there is none. */
export function latestSettlement(sql: Sql): number {
  const newest = row<{ n: number }>(
    sql,
    `SELECT settlement AS n FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement DESC LIMIT 1`,
  );
  return newest?.n ?? 0;
}

/** Returns the epoch ms of the oldest settlement whose job is kept; null if there is none. */
export function oldestSettledAt(sql: Sql): number | null {
  const oldest = row<{ at: number }>(
    sql,
    `SELECT settled_at AS at FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement LIMIT 1`,
  );
  return oldest?.at ?? null;
}

export interface OldJob {
  seq: number;
  id: string;
  /** The time of the settlement, epoch ms. */
  settled_at: number;
}

/** Returns the jobs that were settled first, in that order. */
export function oldestSettled(sql: Sql, limit: number): OldJob[] {
  return rows<OldJob>(
    sql,
    `SELECT seq, id, settled_at FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement LIMIT ?`,
    limit,
  );
}
