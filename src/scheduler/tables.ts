/**
 * The scheduler's tables in the database of the fleet object. Launches and machines are JSON in a row each: they are
 * only read whole.
 */
export const SCHEDULER_TABLES: readonly string[] = [
  // Values by name: the spec in force, the installation, the secret of tokens, operators' orders, the rule's own state.
  `CREATE TABLE scheduler (
     name TEXT PRIMARY KEY,
     value TEXT NOT NULL
   ) WITHOUT ROWID`,
  `CREATE TABLE launches (
     id TEXT PRIMARY KEY,
     launch TEXT NOT NULL
   ) WITHOUT ROWID`,
  // The cost of launches that have ended, US dollars, by the day (UTC, epoch ms of its midnight).
  `CREATE TABLE launch_spend (
     day INTEGER NOT NULL,
     config_id TEXT NOT NULL,
     dollars REAL NOT NULL,
     PRIMARY KEY (day, config_id)
   ) WITHOUT ROWID`,
];
