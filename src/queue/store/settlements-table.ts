import type { JobState } from '../../protocol/index.ts';
import { COLUMNS, type StoredJob } from './jobs-table.ts';
import type { Sql } from './ports.ts';
import { row, rows } from './rows.ts';

/**
 * Settlements in their order. Each has a number, written in the commit that settles its job: numbers only grow, and
 * none is used twice, so a caller that goes on from a number hears of each settlement once.
 */

/** Enough of a settlement to pass over it without reading its job. */
export interface SettlementKey {
  settlement: number;
  seq: number;
  config_id: string;
  tenant: string | null;
}

export type SettledJob = StoredJob & { state: Exclude<JobState, 'pending' | 'leased'>; settled_at: number };

/** The number of the newest settlement there was; 0: there was none. */
export function latestSettlement(sql: Sql): number {
  const newest = row<{ n: number }>(
    sql,
    `SELECT settlement AS n FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement DESC LIMIT 1`,
  );
  return Math.max(newest?.n ?? 0, forgottenSettlement(sql), metaNumber(sql, 'latest_settlement'));
}

/** Those after a number, oldest first; out of the index alone. */
export function settlementsAfter(sql: Sql, after: number, limit: number): SettlementKey[] {
  return rows<SettlementKey>(
    sql,
    `SELECT settlement, seq, config_id, tenant FROM jobs WHERE settlement > ? ORDER BY settlement LIMIT ?`,
    after,
    limit,
  );
}

export function settledJob(sql: Sql, seq: number): SettledJob {
  return row<SettledJob>(sql, `SELECT ${COLUMNS} FROM jobs WHERE seq = ?`, seq)!;
}

/** Settlements up to this number may be missing: their jobs were forgotten. */
export function forgottenSettlement(sql: Sql): number {
  return metaNumber(sql, 'forgotten_settlement');
}

/** To be written before a job gives up its settlement: its number, were it the newest, must not be used again. */
export function keepLatestSettlement(sql: Sql): void {
  sql.exec(`INSERT OR REPLACE INTO meta (key, value) VALUES ('latest_settlement', ?)`, latestSettlement(sql));
}

function metaNumber(sql: Sql, key: string): number {
  return row<{ n: number }>(sql, `SELECT CAST(value AS INTEGER) AS n FROM meta WHERE key = ?`, key)?.n ?? 0;
}

/** To be written in the commit that deletes their jobs: numbers must not start again when none is left. */
export function forgetSettlements(sql: Sql, upTo: number): void {
  sql.exec(`INSERT OR REPLACE INTO meta (key, value) VALUES ('forgotten_settlement', ?)`, upTo);
}

/** Epoch ms of the oldest settlement whose job is kept; null: there is none. */
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
  settlement: number;
  /** Epoch ms. */
  settled_at: number;
}

/** The jobs that were settled first, in that order. */
export function oldestSettled(sql: Sql, limit: number): OldJob[] {
  return rows<OldJob>(
    sql,
    `SELECT seq, id, settlement, settled_at FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement LIMIT ?`,
    limit,
  );
}
