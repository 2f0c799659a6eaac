import type { Sql } from './ports.ts';

/** In the message of an object that cannot start on what a newer version wrote: RPC keeps nothing else. */
export const NEWER_STATE = 'the state was written by a newer version';

/**
 * Brings a database to the newest schema; a new one gets every step.
 * @param migrations the statements of each step, oldest first; a released step is never edited
 * @throws Error when the database was written by a newer version
 */
export function migrate(sql: Sql, migrations: readonly (readonly string[])[]): void {
  sql.exec(`CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)`);
  const version = Number(sql.exec(`SELECT version FROM schema_version`)[0]?.version ?? 0);
  if (version > migrations.length) {
    throw new Error(
      `${NEWER_STATE} (schema ${version}, this one knows ${migrations.length}): upgrade worker-vllm, or use another state folder`,
    );
  }
  if (version === migrations.length) return;
  for (const statements of migrations.slice(version)) {
    for (const statement of statements) sql.exec(statement);
  }
  sql.exec(`DELETE FROM schema_version`);
  sql.exec(`INSERT INTO schema_version (version) VALUES (?)`, migrations.length);
}
