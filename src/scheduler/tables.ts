/**
 * The schema of the scheduler, a step among the migrations of the object that hosts it. Launches and the like are JSON
 * in a row each: nothing is asked of them but to be read whole.
 */
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
  // Machines under our names that no launch wants (strays.ts).
  `CREATE TABLE stray_machines (
     provider TEXT NOT NULL,
     external_id TEXT NOT NULL,
     stray TEXT NOT NULL,
     PRIMARY KEY (provider, external_id)
   ) WITHOUT ROWID`,
  // US dollars of launches that have ended, by the day (UTC, epoch ms of its midnight).
  `CREATE TABLE launch_spend (
     day INTEGER NOT NULL,
     config_id TEXT NOT NULL,
     dollars REAL NOT NULL,
     PRIMARY KEY (day, config_id)
   ) WITHOUT ROWID`,
];
