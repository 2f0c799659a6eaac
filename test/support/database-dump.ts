import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** Returns everything in the tables of all databases below a folder, with the ids of the rows. */
export function dumpDatabases(folder: string): Record<string, Record<string, unknown[]>> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const databases = names.filter((name) => name.endsWith('.sqlite')).sort();
  return Object.fromEntries(databases.map((name) => [name, dump(join(folder, name))]));
}

function dump(path: string): Record<string, unknown[]> {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const schema = database.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY type, name').all();
    const tables = schema.filter(({ type }) => type === 'table').map(({ name }) => String(name));
    const rows = (name: string): unknown[] => {
      const columns = hasRowIds(database, name) ? 'rowid AS row_id, *' : '*';
      const statement = database.prepare(`SELECT ${columns} FROM "${name}"`);
      statement.setReadBigInts(true);
      return statement.all().map((row) => ({ ...row }));
    };
    const all = Object.fromEntries(tables.map((name) => [name, rows(name)]));
    return { sqlite_schema: schema.map((row) => ({ ...row })), ...all };
  } finally {
    database.close();
  }
}

function hasRowIds(database: DatabaseSync, table: string): boolean {
  try {
    database.prepare(`SELECT rowid FROM "${table}"`);
    return true;
  } catch {
    return false;
  }
}
