import type { Sql } from '../durable/ports.ts';
import type { Told } from './history/config-history.ts';

/** Every statement on what is stored of configs. Nothing here decides. All times in epoch ms. */

/** How long one start took, from its container's first process to a healthy engine. */
export interface Start {
  worker_id: string;
  /** By the worker's clock; with its id the start's name. */
  created_ms: number;
  took_ms: number;
}

interface StoredConfig {
  config_id: string;
  told: Told | null;
  /** Oldest first. */
  starts: Start[];
  heard_at: number;
}

export function saveConfig(sql: Sql, { config_id, told, starts, heard_at }: StoredConfig): void {
  sql.exec(
    `INSERT INTO configs (config_id, told, starts, heard_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (config_id) DO UPDATE SET told = excluded.told, starts = excluded.starts, heard_at = excluded.heard_at`,
    config_id,
    told && JSON.stringify(told),
    JSON.stringify(starts),
    heard_at,
  );
}

export function storedConfigs(sql: Sql): StoredConfig[] {
  return sql.exec(`SELECT * FROM configs`).map((row) => ({
    config_id: String(row.config_id),
    told: row.told === null ? null : (JSON.parse(String(row.told)) as Told),
    starts: JSON.parse(String(row.starts)) as Start[],
    heard_at: Number(row.heard_at),
  }));
}

export function forgetConfig(sql: Sql, configId: string): void {
  sql.exec(`DELETE FROM configs WHERE config_id = ?`, configId);
}
