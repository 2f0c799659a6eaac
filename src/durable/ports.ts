/** Describes the storage that a host gives the rules of an object. */

export type SqlValue = string | number | null | Uint8Array;
/** A row of a result. Bytes are read as an ArrayBuffer on Cloudflare, and as a Uint8Array on Node. */
export type Row = Record<string, SqlValue | ArrayBuffer>;

/** The database of the object. All statements between two awaits are one commit. */
export interface Sql {
  exec(query: string, ...bindings: SqlValue[]): Row[];
}

/** The one durable alarm of the object. */
export interface Alarm {
  /** Returns the epoch ms that the alarm is set to, or null. */
  get(): number | null;
  set(atMs: number): void;
  clear(): void;
}

/**
 * The version of the tables of all objects together, stored in each database. A release that changes any table raises
 * it and adds the step that brings an older table there.
 */
export const STATE_VERSION = 30;

/** The oldest version whose tables are brought up to date. */
export const OLDEST_VERSION = 25;

/** The statements that change an object's tables, by the version that they lead to from the one before it. */
export type TableSteps = Readonly<Record<number, readonly string[]>>;

/**
 * The words by which callers recognise an object that cannot start on what another version wrote: RPC keeps only the
 * message of an error.
 */
export const OTHER_VERSION = 'written by another version of worker-vllm';

/**
 * Creates the tables of an object in a new database, or brings those of an older version up to date.
 * @param statements all that a new database needs, once
 * @param steps what changed since OLDEST_VERSION; left out: nothing did in this object
 * @throws Error when the database was written by a version that this one cannot read
 */
export function createTables(sql: Sql, statements: readonly string[], steps: TableSteps = {}): void {
  sql.exec(`CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)`);
  const [stored] = sql.exec(`SELECT version FROM schema_version`);
  const problem = stored ? versionProblem(Number(stored.version)) : null;
  if (problem) throw new Error(`the state ${problem}`);
  if (stored) return update(sql, Number(stored.version), steps);
  for (const statement of statements) sql.exec(statement);
  sql.exec(`INSERT INTO schema_version (version) VALUES (?)`, STATE_VERSION);
}

function update(sql: Sql, stored: number, steps: TableSteps): void {
  if (stored === STATE_VERSION) return;
  for (let version = stored + 1; version <= STATE_VERSION; version += 1)
    for (const statement of steps[version] ?? []) sql.exec(statement);
  sql.exec(`UPDATE schema_version SET version = ?`, STATE_VERSION);
}

/** Returns what keeps this version from using a database, as a clause, or null. */
export function versionProblem(stored: number): string | null {
  if (stored >= OLDEST_VERSION && stored <= STATE_VERSION) return null;
  return `was ${OTHER_VERSION} (state version ${stored}, this one reads ${OLDEST_VERSION} to ${STATE_VERSION})`;
}
