import type { AdapterState } from '../../protocol/index.ts';
import type { Sql } from './ports.ts';
import { rows } from './rows.ts';

/**
 * Every statement on what is stored of workers' connections: what a reconnect and a hibernation need. What is
 * known of workers beyond that is with the fleet object. Nothing here decides. All times in epoch ms.
 */

export interface SessionRow {
  worker_id: string;
  config_id: string;
  models: string[];
}

/** What its slots cost together. */
export interface Priced {
  /** Slots. */
  capacity: number;
  /** US dollars of its machine; null: it is not known. */
  price_per_hour: number | null;
}

/** What a worker told that it serves. */
export interface Served {
  models: string[];
  /** Null: it loads none. */
  adapters: AdapterState | null;
}

/** Who registered. */
interface Registrant {
  /** Of its process; null: it speaks only the base protocol. */
  boot_id: string | null;
  /** Null: no tokens are configured. */
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

/** They have changed since it registered. */
export function setAdapters(sql: Sql, workerId: string, adapters: AdapterState): void {
  sql.exec(`UPDATE sessions SET adapters = ? WHERE worker_id = ?`, JSON.stringify(adapters), workerId);
}

/** It was connected until now. */
export function endSession(sql: Sql, workerId: string, now: number): void {
  sql.exec(`UPDATE sessions SET is_connected = 0, heard_at = ? WHERE worker_id = ?`, now, workerId);
}

/** When its connection ended, epoch ms; null: it is connected, or never was. */
export function endedAt(sql: Sql, workerId: string): number | null {
  const row = sql.exec(`SELECT heard_at FROM sessions WHERE worker_id = ? AND is_connected = 0`, workerId)[0];
  return (row?.heard_at ?? null) as number | null;
}

/** It still is connected. */
export function touchSession(sql: Sql, workerId: string, now: number): void {
  sql.exec(`UPDATE sessions SET heard_at = ? WHERE worker_id = ?`, now, workerId);
}

/** The process that last registered under this id; null: none did, or it told no id. */
export function findBootId(sql: Sql, workerId: string): string | null {
  const row = sql.exec(`SELECT boot_id FROM sessions WHERE worker_id = ?`, workerId)[0];
  return (row?.boot_id ?? null) as string | null;
}

/** Name of the token it last registered with; null: none was asked for, or there is no such worker. */
export function findTokenName(sql: Sql, workerId: string): string | null {
  const row = sql.exec(`SELECT token_name FROM sessions WHERE worker_id = ?`, workerId)[0];
  return (row?.token_name ?? null) as string | null;
}

/** Of the worker that was connected last under this id; null: there was none. */
export function findPrice(sql: Sql, workerId: string): Priced | null {
  const row = sql.exec(`SELECT capacity, price_per_hour FROM sessions WHERE worker_id = ?`, workerId)[0];
  return (row ?? null) as Priced | null;
}

/** What every worker serves, connected or not, by id. */
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

/** Sessions whose end the queue did not see. */
export function openSessions(sql: Sql): SessionRow[] {
  return sql.exec(`SELECT worker_id, config_id, models FROM sessions WHERE is_connected = 1`).map((row) => ({
    worker_id: String(row.worker_id),
    config_id: String(row.config_id),
    models: JSON.parse(String(row.models)) as string[],
  }));
}

/** Workers that are away since then, or later. Those of the base protocol do not tell what they go on with. */
export function sessionsEndedSince(sql: Sql, since: number): { worker_id: string; heard_at: number }[] {
  return rows(
    sql,
    `SELECT worker_id, heard_at FROM sessions WHERE is_connected = 0 AND heard_at > ? AND boot_id IS NOT NULL`,
    since,
  );
}

/** Connected workers not touched since then. */
export function untouchedSessions(sql: Sql, before: number): string[] {
  return sql
    .exec(`SELECT worker_id FROM sessions WHERE is_connected = 1 AND heard_at <= ?`, before)
    .map((row) => String(row.worker_id));
}

export function forgetSessions(sql: Sql, before: number): void {
  sql.exec(`DELETE FROM sessions WHERE is_connected = 0 AND heard_at <= ?`, before);
}

/**
 * Epoch ms at which the next job or session is to be forgotten, or a worker told to be connected; null: there is none.
 * @param retentionMs after which a settled job, or a session that is gone, is forgotten
 * @param connectedMs after which a connected worker is told of again
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
