import type { Sql } from '../durable/ports.ts';
import type { Told } from './history/pool-history.ts';

/** Every statement on what is stored of pools. Nothing here decides. All times in epoch ms. */

/** How long one start took, from its container's first process to a healthy engine. */
export interface Start {
  worker_id: string;
  /** When the start began, by the worker's clock; identifies the start together with the worker's id. */
  created_ms: number;
  took_ms: number;
}

interface StoredPool {
  config_id: string;
  told: Told | null;
  /** The newest starts, oldest first. */
  starts: Start[];
  heard_at: number;
}

export function savePool(sql: Sql, { config_id, told, starts, heard_at }: StoredPool): void {
  sql.exec(
    `INSERT INTO pools (config_id, told, starts, heard_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (config_id) DO UPDATE SET told = excluded.told, starts = excluded.starts, heard_at = excluded.heard_at`,
    config_id,
    told && JSON.stringify(told),
    JSON.stringify(starts),
    heard_at,
  );
}

export function storedPools(sql: Sql): StoredPool[] {
  return sql.exec(`SELECT * FROM pools`).map((row) => ({
    config_id: String(row.config_id),
    told: row.told === null ? null : (JSON.parse(String(row.told)) as Told),
    starts: JSON.parse(String(row.starts)) as Start[],
    heard_at: Number(row.heard_at),
  }));
}

export function forgetPool(sql: Sql, configId: string): void {
  sql.exec(`DELETE FROM pools WHERE config_id = ?`, configId);
}
