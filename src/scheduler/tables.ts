/**
 * The schema of the scheduler, a step among the migrations of the object that hosts it. Launches and the like are JSON
 * in a row each: nothing is asked of them but to be read whole.
 */
export const SCHEDULER_TABLES: readonly string[] = [
  // Under a name: the spec in force, its providers, the installation, the secret of tokens, the rule's own state.
  `CREATE TABLE scheduler (
     name TEXT PRIMARY KEY,
     value TEXT NOT NULL
   ) WITHOUT ROWID`,
  // alive: 0 when it is gone or failed.
  `CREATE TABLE launches (
     id TEXT PRIMARY KEY,
     alive INTEGER NOT NULL,
     ended_at INTEGER,
     launch TEXT NOT NULL
   ) WITHOUT ROWID`,
  `CREATE INDEX launches_alive ON launches (alive, ended_at)`,
  // Machines under our names that no launch wants (strays.ts).
  `CREATE TABLE stray_machines (
     provider TEXT NOT NULL,
     external_id TEXT NOT NULL,
     stray TEXT NOT NULL,
     PRIMARY KEY (provider, external_id)
   ) WITHOUT ROWID`,
  // What launchers have told, and which lists they made.
  `CREATE TABLE launchers (
     launcher_id TEXT PRIMARY KEY,
     seen_at INTEGER NOT NULL,
     launcher TEXT NOT NULL
   ) WITHOUT ROWID`,
  // The newest list of a provider, of each host that it was made on; host '': it is the same everywhere.
  `CREATE TABLE provider_lists (
     provider TEXT NOT NULL,
     host TEXT NOT NULL,
     list TEXT NOT NULL,
     PRIMARY KEY (provider, host)
   ) WITHOUT ROWID`,
  // US dollars of launches that have ended, by the day (UTC, epoch ms of its midnight).
  `CREATE TABLE launch_spend (
     day INTEGER NOT NULL,
     config_id TEXT NOT NULL,
     dollars REAL NOT NULL,
     PRIMARY KEY (day, config_id)
   ) WITHOUT ROWID`,
];
