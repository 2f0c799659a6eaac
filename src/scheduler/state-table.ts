import type { Sql } from '../durable/ports.ts';

/** @returns what is stored under a name, or null */
export function readState<T>(sql: Sql, name: string): T | null {
  const row = sql.exec(`SELECT value FROM scheduler WHERE name = ?`, name)[0];
  return row ? (JSON.parse(String(row.value)) as T) : null;
}

export function writeState(sql: Sql, name: string, value: unknown): void {
  sql.exec(
    `INSERT INTO scheduler (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    name,
    JSON.stringify(value),
  );
}

export function removeState(sql: Sql, name: string): void {
  sql.exec(`DELETE FROM scheduler WHERE name = ?`, name);
}
