import { writeSync } from 'node:fs';
import { ObjectDatabase } from '../../../src/host/node/storage/database.ts';

/**
 * Writes rows into the database of an object without an end, and acknowledges each with a line: `sync` once it is on
 * disk, `at-once` before. `read` tells the rows that there are, and writes nothing.
 */
const [path = '', mode = 'sync'] = process.argv.slice(2);

const die = ({ message }: Error) => {
  console.error(message);
  process.exit(1);
};
const ports = { fatal: die, lost: die, alarmStored: () => {}, log: console.error };
// The limits are so short that the log begins anew many times.
const limits = { copied: 60_000, held: 200_000, most: 800_000 };
const database = await ObjectDatabase.open(path, ports, limits);
const { sql, gathered } = database.begin();
let n = 0;
const acknowledge = (row: number) => writeSync(1, `${row}\n`);

async function write(): Promise<void> {
  // Some of the work of an object gathers, some does not.
  if (n % 3 > 0) await gathered();
  const row = ++n;
  sql.exec('INSERT INTO t VALUES (?, ?)', row, String(row).repeat(1 + (row % 700)));
  sql.exec('INSERT OR REPLACE INTO last VALUES (0, ?)', row);
  if (row % 5 === 0) database.commitNow();
  if (mode === 'at-once') acknowledge(row);
  else database.whenSynced(() => acknowledge(row));
  await database.synced();
}

async function writeOn(): Promise<void> {
  for (;;) await write();
}

if (mode === 'read') {
  for (const row of sql.exec('SELECT n FROM t')) database.whenSynced(() => acknowledge(Number(row.n)));
  setInterval(() => {}, 60_000);
} else {
  sql.exec('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, text TEXT NOT NULL)');
  sql.exec('CREATE TABLE IF NOT EXISTS last (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)');
  n = Number(sql.exec('SELECT coalesce(max(n), 0) AS n FROM t')[0]!.n);
  for (let writer = 0; writer < 8; writer += 1) void writeOn();
}
