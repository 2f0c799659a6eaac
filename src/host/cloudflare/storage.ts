import type { Row, Sql, SqlValue } from '../../durable/ports.ts';

/** The runtime's own objects are cheaper by half for rows with fewer columns; at 27 columns they cost half more. */
const WIDE_COLUMNS = 8;

/** Returns the database of a Durable Object as its rules use it. Wide rows are made here from arrays of values. */
export function sqlOf({ sql }: DurableObjectStorage): Sql {
  /** The column names of each query that has returned rows; null: its rows are narrow. */
  const columns = new Map<string, string[] | null>();
  return {
    exec: (query: string, ...bindings: SqlValue[]) => {
      const cursor = sql.exec(query, ...bindings);
      const names = columns.get(query);
      if (names) return Array.from(cursor.raw(), (values) => rowOf(names, values));
      const found = cursor.toArray() as Row[];
      if (names === undefined && found.length > 0) {
        const { columnNames } = cursor;
        columns.set(query, columnNames.length >= WIDE_COLUMNS ? columnNames : null);
      }
      return found;
    },
  };
}

function rowOf(names: readonly string[], values: readonly SqlStorageValue[]): Row {
  const row: Row = {};
  for (let n = 0; n < names.length; n++) row[names[n]!] = values[n]!;
  return row;
}
