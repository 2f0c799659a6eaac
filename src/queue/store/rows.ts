import type { Sql, SqlValue } from './ports.ts';

/** The rows of a statement, in the form that its columns have. The one place where that is taken on trust. */
export function rows<T>(sql: Sql, query: string, ...bindings: SqlValue[]): T[] {
  return sql.exec(query, ...bindings) as unknown as T[];
}

/** The first row; null: there is none. */
export function row<T>(sql: Sql, query: string, ...bindings: SqlValue[]): T | null {
  return rows<T>(sql, query, ...bindings)[0] ?? null;
}
