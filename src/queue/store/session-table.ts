import type { AdapterState } from '../../protocol/index.ts';
import { rows, type Sql } from './ports.ts';

/**
 * Every statement on what is stored of workers' connections: what a reconnect and a hibernation need. What else is
 * known of workers is with the fleet object. Nothing here decides. All times in epoch ms.
 */

export interface SessionRow {
  worker_id: string;
  config_id: string;
  models: string[];
}

/** A worker's slots, and their price together. */
export interface Priced {
  /** The number of slots. */
  capacity: number;
  /** The price of the worker's machine, US dollars per hour; null if that is not known. */
  price_per_hour: number | null;
}

/** The models and adapters that a worker reported. */
export interface Served {
  models: string[];
  /** The adapters that the worker can load, and has loaded; null if it loads none. */
  adapters: AdapterState | null;
}

/** The process and the token of a worker that registers. */
interface Registrant {
  /** The id of the worker's process; null if it speaks only the base protocol. */
  boot_id: string | null;
  /** The token that the worker registers with; null if no tokens are configured. */
  token_name: string | null;
}

export function beginSession(
  sql: Sql,
  session: SessionRow & Served & Priced,
  by: Registrant,
  now: number,
): void {
  sql.exec(
    `INSERT INTO sessions (worker_id, config_id, boot_id, token_name, models, adapters, is_connected, heard_at, capacity, price_per_hour)
     VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?)
     ON CONFLICT (worker_id) DO UPDATE SET config_id = excluded.config_id, boot_id = excluded.boot_id,
       token_name = excluded.token_name, models = excluded.models, adapters = excluded.adapters, is_connected = 1, heard_at = excluded.heard_at,
       capacity = excluded.capacity, price_per_hour = excluded.price_per_hour`,
    session.worker_id,
    session.config_id,
    by.boot_id,
    by.token_name,
    JSON.stringify(session.models),
    session.adapters && JSON.stringify(session.adapters),
    now,
    session.capacity,
    session.price_per_hour,
  );
}

/** Stores the adapters of a worker, which have changed since it registered. */
export function setAdapters(sql: Sql, workerId: string, adapters: AdapterState): void {
  sql.exec(`UPDATE sessions SET adapters = ? WHERE worker_id = ?`, JSON.stringify(adapters), workerId);
}

/** Notes that the worker was connected until now. */
export function endSession(sql: Sql, workerId: string, now: number): void {
  sql.exec(`UPDATE sessions SET is_connected = 0, heard_at = ? WHERE worker_id = ?`, now, workerId);
}

/** Returns when the worker's connection ended, epoch ms; null if it is connected, or never was. */
export function endedAt(sql: Sql, workerId: string): number | null {
  const row = sql.exec(`SELECT heard_at FROM sessions WHERE worker_id = ? AND is_connected = 0`, workerId)[0];
  return (row?.heard_at ?? null) as number | null;
}

/** Notes that the worker is still connected. */
export function touchSession(sql: Sql, workerId: string, now: number): void {
  sql.exec(`UPDATE sessions SET heard_at = ? WHERE worker_id = ?`, now, workerId);
}

/** Returns the id of the process that last registered as this worker; null if none did, or it reported no id. */
export function findBootId(sql: Sql, workerId: string): string | null {
  const row = sql.exec(`SELECT boot_id FROM sessions WHERE worker_id = ?`, workerId)[0];
  return (row?.boot_id ?? null) as string | null;
}

/** Returns the token that the worker last registered with; null if none was required, or there is no such worker. */
export function findTokenName(sql: Sql, workerId: string): string | null {
  const row = sql.exec(`SELECT token_name FROM sessions WHERE worker_id = ?`, workerId)[0];
  return (row?.token_name ?? null) as string | null;
}

/** Returns slots and price of the worker that was connected last under this id; null if there was none. */
export function findPrice(sql: Sql, workerId: string): Priced | null {
  const row = sql.exec(`SELECT capacity, price_per_hour FROM sessions WHERE worker_id = ?`, workerId)[0];
  return (row ?? null) as Priced | null;
}

/** Returns what every worker serves, connected or not, by worker id. */
export function servedBySession(sql: Sql): Map<string, Served> {
  const rows = sql.exec(`SELECT worker_id, models, adapters FROM sessions`);
  return new Map(
    rows.map(({ worker_id, models, adapters }) => [
      String(worker_id),
      {
        models: JSON.parse(String(models)) as string[],
        adapters: adapters === null ? null : (JSON.parse(String(adapters)) as AdapterState),
      },
    ]),
  );
}

/** Returns the sessions whose end the queue did not see. */
export function openSessions(sql: Sql): SessionRow[] {
  return sql.exec(`SELECT worker_id, config_id, models FROM sessions WHERE is_connected = 1`).map((row) => ({
    worker_id: String(row.worker_id),
    config_id: String(row.config_id),
    models: JSON.parse(String(row.models)) as string[],
  }));
}

/** Returns the workers that went away after `since`, without base workers, which do not report what they go on with. */
export function sessionsEndedSince(sql: Sql, since: number): { worker_id: string; heard_at: number }[] {
  return rows(
    sql,
    `SELECT worker_id, heard_at FROM sessions WHERE is_connected = 0 AND heard_at > ? AND boot_id IS NOT NULL`,
    since,
  );
}

/** Returns the connected workers not touched since `before`. */
export function untouchedSessions(sql: Sql, before: number): string[] {
  return sql
    .exec(`SELECT worker_id FROM sessions WHERE is_connected = 1 AND heard_at <= ?`, before)
    .map((row) => String(row.worker_id));
}

export function forgetSessions(sql: Sql, before: number): void {
  sql.exec(`DELETE FROM sessions WHERE is_connected = 0 AND heard_at <= ?`, before);
}

/**
 * Returns the epoch ms at which the next job or session is to be forgotten, or a worker to be reported as connected;
 * null if there is none.
 * @param retentionMs after which a settled job, or a session that is gone, is forgotten
 * @param connectedMs after which a connected worker is reported again
 */
export function nextToForget(sql: Sql, retentionMs: number, connectedMs: number): number | null {
  const row = sql.exec(
    `SELECT min(at) AS at FROM (
       SELECT settled_at + ?1 AS at FROM (
         SELECT settled_at FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement LIMIT 1)
       UNION ALL SELECT min(heard_at + iif(is_connected, ?2, ?1)) FROM sessions)`,
    retentionMs,
    connectedMs,
  )[0];
  return row?.at == null ? null : Number(row.at);
}

/** Returns the ids of the workers that get no more jobs; they are one row of `meta`. */
export function readCordon(sql: Sql): string[] {
  const row = sql.exec(`SELECT value FROM meta WHERE key = 'cordon'`)[0];
  return row ? (JSON.parse(String(row.value)) as string[]) : [];
}

export function saveCordon(sql: Sql, workerIds: readonly string[]): void {
  sql.exec(
    `INSERT INTO meta (key, value) VALUES ('cordon', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
    JSON.stringify(workerIds),
  );
}
