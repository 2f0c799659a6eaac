import type { Sql } from '../../../durable/ports.ts';

/** Of the host, in each database: the name of its folder need not tell the queue id. */
const TABLE = 'host_queue_id';

/**
 * Keeps the queue id in a database.
 * @param queueId null: it is read
 * @throws Error where none is there to be read
 */
export function keptQueueId(sql: Sql, queueId: string | null): string {
  const [table] = sql.exec(`SELECT 1 FROM sqlite_schema WHERE name = ?`, TABLE);
  const [row] = table ? sql.exec(`SELECT id FROM ${TABLE}`) : [];
  if (row) return JSON.parse(String(row.id)) as string;
  if (queueId === null) throw new Error('the database does not tell whose it is');
  sql.exec(`CREATE TABLE IF NOT EXISTS ${TABLE} (id TEXT NOT NULL)`);
  // As JSON: not every text is one of SQLite's.
  sql.exec(`INSERT INTO ${TABLE} (id) VALUES (?)`, JSON.stringify(queueId));
  return queueId;
}
