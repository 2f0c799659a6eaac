import type { Sql } from '../durable/ports.ts';
import type { Heartbeat, Instance } from '../protocol/index.ts';
import type { KnownWorker } from './rpc.ts';

/** Every statement on what is stored of workers. Nothing here decides. All times in epoch ms. */

/** A worker registered: its last disconnect is history. */
export function saveInstance(
  sql: Sql,
  worker: { worker_id: string; config_id: string },
  instance: Instance | null,
  at: number,
): void {
  sql.exec(
    `INSERT INTO workers (worker_id, config_id, instance, heard_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (worker_id) DO UPDATE SET config_id = excluded.config_id, instance = excluded.instance,
       disconnected_at = NULL, disconnect_reason = NULL, heard_at = max(heard_at, excluded.heard_at)`,
    worker.worker_id,
    worker.config_id,
    instance ? JSON.stringify(instance) : null,
    at,
  );
}

export function saveHeartbeat(sql: Sql, workerId: string, beat: Heartbeat, at: number): void {
  sql.exec(
    `INSERT INTO workers (worker_id, config_id, heartbeat, heartbeat_at, heard_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (worker_id) DO UPDATE SET heartbeat = excluded.heartbeat, heartbeat_at = excluded.heartbeat_at,
       heard_at = max(heard_at, excluded.heard_at)`,
    workerId,
    beat.config_id ?? null,
    JSON.stringify(beat),
    at,
    at,
  );
}

/** It is connected, or was until now. */
export function touchWorker(sql: Sql, workerId: string, at: number): void {
  sql.exec(`UPDATE workers SET heard_at = max(heard_at, ?) WHERE worker_id = ?`, at, workerId);
}

export function saveDisconnect(sql: Sql, workerId: string, reason: string, at: number): void {
  sql.exec(
    `UPDATE workers SET disconnected_at = ?, disconnect_reason = ? WHERE worker_id = ?`,
    at,
    reason,
    workerId,
  );
}

export function storedWorkers(sql: Sql): KnownWorker[] {
  return sql.exec(`SELECT * FROM workers`).map((row) => ({
    worker_id: String(row.worker_id),
    config_id: row.config_id as string | null,
    instance: row.instance ? (JSON.parse(String(row.instance)) as Instance) : null,
    heartbeat: row.heartbeat ? (JSON.parse(String(row.heartbeat)) as Heartbeat) : null,
    heartbeat_at: row.heartbeat_at as number | null,
    disconnected:
      row.disconnected_at === null
        ? null
        : { at: Number(row.disconnected_at), reason: String(row.disconnect_reason) },
  }));
}

/** Forgets those last heard of by then, and beyond `most` those not heard of for the longest. */
export function forgetWorkers(sql: Sql, heardBy: number, most: number): void {
  sql.exec(`DELETE FROM workers WHERE heard_at <= ?`, heardBy);
  sql.exec(
    `DELETE FROM workers WHERE worker_id IN (
       SELECT worker_id FROM workers ORDER BY heard_at DESC LIMIT -1 OFFSET ?)`,
    most,
  );
}

/** When the worker not heard of for the longest was heard of; null: there is none. */
export function longestUnheard(sql: Sql): number | null {
  return sql.exec(`SELECT min(heard_at) AS at FROM workers`)[0]?.at as number | null;
}
