import type { Sql, SqlValue } from './ports.ts';

/** Returns the rows of a statement, typed by its columns: the one place that takes such a type on trust. */
export function rows<T>(sql: Sql, query: string, ...bindings: SqlValue[]): T[] {
  return sql.exec(query, ...bindings) as unknown as T[];
}

/** Returns the first row; null if there is none. */
export function row<T>(sql: Sql, query: string, ...bindings: SqlValue[]): T | null {
  return rows<T>(sql, query, ...bindings)[0] ?? null;
}
