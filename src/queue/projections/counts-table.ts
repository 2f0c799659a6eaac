import type { Sql } from '../store/ports.ts';
import { rows } from '../store/rows.ts';

/** The row with what happened to the jobs of one pool. */
export interface CountsRow {
  config_id: string;
  /** The pool's counts, JSON of PoolCounts. */
  counts: string;
  /** When the counts last changed, epoch ms. */
  changed_at: number;
}

export function readCounts(sql: Sql): CountsRow[] {
  return rows(sql, `SELECT config_id, counts, changed_at FROM counts`);
}

export function writeCounts(sql: Sql, { config_id, counts, changed_at }: CountsRow): void {
  sql.exec(
    `INSERT OR REPLACE INTO counts (config_id, counts, changed_at) VALUES (?, ?, ?)`,
    config_id,
    counts,
    changed_at,
  );
}

export function deleteCounts(sql: Sql, configId: string): void {
  sql.exec(`DELETE FROM counts WHERE config_id = ?`, configId);
}
