import type { Sql } from './ports.ts';

/**
 * The version of the tables of all objects together, stored in each database. A release that changes any table raises
 * it: before 1.0 no version reads the state of another one.
 */
const STATE_VERSION = 25;

/**
 * The words by which callers recognise an object that cannot start on what another version wrote: RPC keeps only the
 * message of an error.
 */
export const OTHER_VERSION = 'written by another version of worker-vllm';

/**
 * Creates the tables of an object in a new database.
 * @param statements all of them, once
 * @throws Error when another version wrote the database
 */
export function createTables(sql: Sql, statements: readonly string[]): void {
  sql.exec(`CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)`);
  const [stored] = sql.exec(`SELECT version FROM schema_version`);
  const problem = stored ? versionProblem(Number(stored.version)) : null;
  if (problem) throw new Error(`the state ${problem}`);
  if (stored) return;
  for (const statement of statements) sql.exec(statement);
  sql.exec(`INSERT INTO schema_version (version) VALUES (?)`, STATE_VERSION);
}

/** Returns what keeps this version from using a database, as a clause, or null. */
export function versionProblem(stored: number): string | null {
  if (stored === STATE_VERSION) return null;
  return `was ${OTHER_VERSION} (state version ${stored}, this one reads ${STATE_VERSION} only)`;
}
