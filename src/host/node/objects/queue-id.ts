import type { Sql } from '../../../durable/ports.ts';

/** The host's table in each database that holds the queue id: the name of the folder need not contain it. */
const TABLE = 'host_queue_id';

/**
 * Stores the queue id in a database, or reads it from there.
 * @param queueId the id to store; null: the stored id is read
 * @throws Error if null is given and none is stored
 */
export function keptQueueId(sql: Sql, queueId: string | null): string {
  const [table] = sql.exec(`SELECT 1 FROM sqlite_schema WHERE name = ?`, TABLE);
  const [row] = table ? sql.exec(`SELECT id FROM ${TABLE}`) : [];
  if (row) return JSON.parse(String(row.id)) as string;
  if (queueId === null) throw new Error('the database does not tell whose it is');
  sql.exec(`CREATE TABLE IF NOT EXISTS ${TABLE} (id TEXT NOT NULL)`);
  // The id is stored as JSON, since not every JavaScript string is a text of SQLite.
  sql.exec(`INSERT INTO ${TABLE} (id) VALUES (?)`, JSON.stringify(queueId));
  return queueId;
}
