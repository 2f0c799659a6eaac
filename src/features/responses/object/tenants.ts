import type { Sql } from '../../../durable/ports.ts';

/** The bytes of JSON that are stored for each tenant; the name '' is that of callers without one. */

export const TENANT_TABLES: readonly string[] = [
  `CREATE TABLE tenants (
     number INTEGER PRIMARY KEY,
     name TEXT NOT NULL UNIQUE,
     bytes INTEGER NOT NULL DEFAULT 0
   )`,
];

/** Returns triggers that count a column of a table against the tenant of the row. */
export function counted(table: string, column: string, whose: (row: string) => string): string[] {
  const length = (row: string) => `length(CAST(${row}.${column} AS BLOB))`;
  const add = (event: string, bytes: string, row: string) =>
    `CREATE TRIGGER ${table}_${event.toLowerCase()} AFTER ${event === 'UPDATE' ? `UPDATE OF ${column}` : event} ON ${table}
     BEGIN UPDATE tenants SET bytes = bytes + ${bytes} WHERE ${whose(row)}; END`;
  return [
    add('INSERT', length('new'), 'new'),
    add('UPDATE', `${length('new')} - ${length('old')}`, 'new'),
    add('DELETE', `-${length('old')}`, 'old'),
  ];
}

/** Returns the number of a tenant, which has one from now on. */
export function numberOfTenant(sql: Sql, tenant: string | null): number {
  const find = () => sql.exec(`SELECT number FROM tenants WHERE name = ?`, tenant ?? '')[0];
  const known = find();
  if (known === undefined) sql.exec(`INSERT INTO tenants (name) VALUES (?)`, tenant ?? '');
  return Number((known ?? find())!.number);
}

/** Returns the bytes that are stored for a tenant. */
export function bytesOfTenant(sql: Sql, tenant: string | null): number {
  return Number(sql.exec(`SELECT bytes FROM tenants WHERE name = ?`, tenant ?? '')[0]?.bytes ?? 0);
}

/** Returns the bytes that are stored for each tenant that has any. */
export function bytesByTenant(sql: Sql): { tenant: string | null; bytes: number }[] {
  return sql
    .exec(`SELECT name, bytes FROM tenants WHERE bytes > 0 ORDER BY name`)
    .map(({ name, bytes }) => ({ tenant: String(name) || null, bytes: Number(bytes) }));
}
