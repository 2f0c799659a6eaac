import type { Instance } from '../../protocol/index.ts';
import type { Sql } from './ports.ts';

/** Every statement on what is stored of workers and models. Nothing here decides. */

export function rememberModel(sql: Sql, model: string, configId: string, now: number): void {
  sql.exec(
    `INSERT OR IGNORE INTO models (model, config_id, first_seen) VALUES (?, ?, ?)`,
    model,
    configId,
    now,
  );
}

export function knownModels(sql: Sql): { model: string; config_id: string; first_seen: number }[] {
  return sql.exec(`SELECT model, config_id, first_seen FROM models ORDER BY first_seen, model`) as never;
}

export function saveInstance(
  sql: Sql,
  workerId: string,
  configId: string,
  instance: Instance | null,
  now: number,
): void {
  sql.exec(
    `INSERT INTO workers (worker_id, config_id, instance, heard_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (worker_id) DO UPDATE SET config_id = excluded.config_id, instance = excluded.instance,
       heard_at = excluded.heard_at`,
    workerId,
    configId,
    instance ? JSON.stringify(instance) : null,
    now,
  );
}

/** What a worker said of itself when it last registered. */
export function findInstance(sql: Sql, workerId: string): Instance | null {
  const text = sql.exec(`SELECT instance FROM workers WHERE worker_id = ?`, workerId)[0]?.instance;
  return text ? (JSON.parse(String(text)) as Instance) : null;
}

/** It was connected until now. */
export function touchWorker(sql: Sql, workerId: string, now: number): void {
  sql.exec(`UPDATE workers SET heard_at = ? WHERE worker_id = ?`, now, workerId);
}

export interface WorkerRow {
  worker_id: string;
  config_id: string | null;
  instance: Instance | null;
}

export function workerRows(sql: Sql): WorkerRow[] {
  return sql.exec(`SELECT * FROM workers ORDER BY worker_id`).map((row) => ({
    worker_id: String(row.worker_id),
    config_id: row.config_id as string | null,
    instance: row.instance ? (JSON.parse(String(row.instance)) as Instance) : null,
  }));
}
