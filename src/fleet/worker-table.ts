import type { Sql } from '../durable/ports.ts';
import type { Heartbeat, Instance } from '../protocol/index.ts';
import type { KnownWorker } from './rpc.ts';

/** Every statement on what is stored of workers. Nothing here decides. All times in epoch ms. */

/** All that is known of a worker but its connection. */
type StoredWorker = Omit<KnownWorker, 'session'>;

/** Stores the registration of a worker, whose last disconnect is history. */
export function saveInstance(
  sql: Sql,
  worker: { worker_id: string; config_id: string },
  instance: Instance | null,
  at: number,
): void {
  sql.exec(
    `INSERT INTO workers (worker_id, config_id, instance, heard_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (worker_id) DO UPDATE SET config_id = excluded.config_id, instance = excluded.instance,
       disconnected_at = NULL, disconnect_reason = NULL, was_running = NULL,
       heard_at = max(heard_at, excluded.heard_at)`,
    worker.worker_id,
    worker.config_id,
    instance ? JSON.stringify(instance) : null,
    at,
  );
}

export function saveHeartbeat(sql: Sql, worker: StoredWorker): void {
  sql.exec(
    `INSERT INTO workers (worker_id, config_id, heartbeat, heartbeat_at, heard_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (worker_id) DO UPDATE SET config_id = excluded.config_id, heartbeat = excluded.heartbeat,
       heartbeat_at = excluded.heartbeat_at, heard_at = max(heard_at, excluded.heard_at)`,
    worker.worker_id,
    worker.config_id,
    JSON.stringify(worker.heartbeat),
    worker.heartbeat_at,
    worker.heard_at,
  );
}

/** Notes that a worker is connected, or was until now. */
export function touchWorker(sql: Sql, workerId: string, at: number): void {
  sql.exec(`UPDATE workers SET heard_at = max(heard_at, ?) WHERE worker_id = ?`, at, workerId);
}

export function saveDisconnect(
  sql: Sql,
  workerId: string,
  { at, reason, was_running }: { at: number; reason: string; was_running: number | null },
): void {
  sql.exec(
    `UPDATE workers SET disconnected_at = ?, disconnect_reason = ?, was_running = ?, heard_at = max(heard_at, ?)
     WHERE worker_id = ?`,
    at,
    reason,
    was_running,
    at,
    workerId,
  );
}

export function storedWorkers(sql: Sql): StoredWorker[] {
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
    was_running: row.was_running as number | null,
    heard_at: Number(row.heard_at),
  }));
}

export function forgetWorker(sql: Sql, workerId: string): void {
  sql.exec(`DELETE FROM workers WHERE worker_id = ?`, workerId);
}
