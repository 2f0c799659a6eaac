import type { Row, Sql, SqlValue } from '../../durable/ports.ts';

/** Narrower rows are cheaper as the runtime's own objects, by half; one of 27 columns costs half as much again. */
const WIDE_COLUMNS = 8;

/** The database of a Durable Object as its rules take it. Wide rows are made here of arrays of values. */
export function sqlOf({ sql }: DurableObjectStorage): Sql {
  /** Names of the columns by query, of those that have answered rows; null: these are narrow. */
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
