import type { Sql } from '../../durable/ports.ts';

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
