/** Among the tables of the fleet object. Launches and machines are JSON in a row each: they are only read whole. */
export const SCHEDULER_TABLES: readonly string[] = [
  // Under a name: the spec in force, the installation, the secret of tokens, what operators said, the rule's own state.
  `CREATE TABLE scheduler (
     name TEXT PRIMARY KEY,
     value TEXT NOT NULL
   ) WITHOUT ROWID`,
  `CREATE TABLE launches (
     id TEXT PRIMARY KEY,
     launch TEXT NOT NULL
   ) WITHOUT ROWID`,
  // US dollars of launches that have ended, by the day (UTC, epoch ms of its midnight).
  `CREATE TABLE launch_spend (
     day INTEGER NOT NULL,
     config_id TEXT NOT NULL,
     dollars REAL NOT NULL,
     PRIMARY KEY (day, config_id)
   ) WITHOUT ROWID`,
];
