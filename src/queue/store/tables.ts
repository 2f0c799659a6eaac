import type { TableSteps } from '../../durable/ports.ts';

// With the tenant in these indexes, pending jobs are counted without a look at their rows (pending-table.ts). With the
// tenant before `seq`, a tenant's oldest job is found however many others have.
const JOBS_READY = `CREATE INDEX jobs_ready ON jobs (config_id, priority DESC, tenant, seq)
  WHERE state = 'pending' AND run_after IS NULL AND is_held = 0`;
// This index lists held jobs in the order in which they are admitted.
const JOBS_HELD = `CREATE INDEX jobs_held ON jobs (token_name, config_id, priority DESC, seq, tenant)
  WHERE state = 'pending' AND is_held = 1`;
// This index lists the unsettled jobs of tokens with limits.
const JOBS_LIMITED = `CREATE INDEX jobs_limited ON jobs (token_name) WHERE is_limited = 1 AND settled_at IS NULL`;

/**
 * A queue's tables. `jobs` alone says how a job stands; partial indexes keep dispatch flat however many are settled.
 */
export const QUEUE_TABLES: readonly string[] = [
  `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID`,
  // settlement: the job's number in the order of settlements (settlements-table.ts). started_at, first_token_at: times
  // of the newest attempt, reported by its settlement (ledger.ts). file_key: the key to the files of the newest attempt
  // (tickets.ts). output_*: how much was taken of that attempt's output (rpc.ts). stream 1: a relay carries
  // the answer too, while it is made. token_name: the token that submitted the job. model: the model that the job
  // names. payload_file: the file with a payload that is too long for the row. result_file: the file with the result of
  // the newest attempt, or of the one that settled the job. partial: JSON of the KeptPartial that the next attempt goes
  // on from (state/partial-answers.ts). is_held 1: the job is pending and admission control holds it back; its run_after
  // is null. extras: JSON of the JobExtras, all that only features read and no statement selects by; null for none.
  // is_limited 1: the extras have a cost. All times in epoch ms.
  `CREATE TABLE jobs (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     id TEXT NOT NULL UNIQUE,
     job_type TEXT NOT NULL,
     config_id TEXT NOT NULL,
     state TEXT NOT NULL,
     priority INTEGER NOT NULL,
     attempts INTEGER NOT NULL DEFAULT 0,
     max_attempts INTEGER NOT NULL,
     fence_token INTEGER NOT NULL DEFAULT 0,
     worker_id TEXT,
     payload TEXT,
     result TEXT,
     error TEXT,
     attempt_errors TEXT NOT NULL DEFAULT '[]',
     progress REAL,
     status_message TEXT,
     created_at INTEGER NOT NULL,
     leased_at INTEGER,
     settled_at INTEGER,
     run_after INTEGER,
     deadline_at INTEGER,
     lease_expires_at INTEGER,
     lease_orphaned INTEGER NOT NULL DEFAULT 0,
     tenant TEXT,
     file_key TEXT,
     started_at INTEGER,
     first_token_at INTEGER,
     stream INTEGER NOT NULL DEFAULT 0,
     settlement INTEGER,
     output_fence INTEGER,
     output_taken INTEGER NOT NULL DEFAULT 0,
     token_name TEXT,
     model TEXT,
     payload_file TEXT,
     result_file TEXT,
     partial TEXT,
     is_held INTEGER NOT NULL DEFAULT 0,
     extras TEXT,
     is_limited INTEGER NOT NULL DEFAULT 0
   )`,
  // A pending job is in one of three indexes: it is ready, waits for its next attempt, or is held back.
  JOBS_READY,
  `CREATE INDEX jobs_delayed ON jobs (run_after, config_id, tenant)
     WHERE state = 'pending' AND run_after IS NOT NULL`,
  JOBS_HELD,
  JOBS_LIMITED,
  `CREATE INDEX jobs_leased ON jobs (lease_expires_at) WHERE state = 'leased'`,
  `CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL AND settled_at IS NULL`,
  // These indexes hold the columns of the filters, so a job that does not pass costs no read of its row.
  `CREATE INDEX jobs_settled ON jobs (settlement, settled_at, config_id, tenant) WHERE settlement IS NOT NULL`,
  `CREATE INDEX jobs_listed ON jobs (created_at, seq, config_id, tenant, job_type)`,
  // This index lists what went wrong, and a job that goes well writes nothing to it. `cancelled`, `expired` and
  // `failed` come before the other states in the alphabet; naming the three made every change of a job 4 µs slower
  // (measured).
  `CREATE INDEX jobs_ended_badly ON jobs (created_at, seq, state, config_id, tenant, job_type)
     WHERE state < 'leased'`,
  // The ledger of each job, step by step (projections/ledger.ts); `job` is jobs.seq.
  `CREATE TABLE ledger (
     job INTEGER NOT NULL,
     n INTEGER NOT NULL,
     at INTEGER NOT NULL,
     step TEXT NOT NULL,
     attempt INTEGER NOT NULL,
     fence_token INTEGER NOT NULL,
     worker_id TEXT,
     detail TEXT,
     PRIMARY KEY (job, n)
   ) WITHOUT ROWID`,
  // Data that a worker's reconnect needs. token_name: the token that the worker registered with; null if none was
  // required. adapters: JSON of the worker's AdapterState; null if it loads none.
  `CREATE TABLE sessions (
     worker_id TEXT PRIMARY KEY,
     config_id TEXT NOT NULL,
     boot_id TEXT,
     models TEXT NOT NULL,
     adapters TEXT,
     is_connected INTEGER NOT NULL,
     heard_at INTEGER NOT NULL,
     token_name TEXT,
     capacity INTEGER NOT NULL,
     price_per_hour REAL
   ) WITHOUT ROWID`,
  // Posts of settlements that no receiver has taken yet (projections/webhooks.ts).
  `CREATE TABLE webhooks (
     id TEXT PRIMARY KEY,
     job_id TEXT NOT NULL,
     host TEXT NOT NULL,
     url TEXT NOT NULL,
     tries INTEGER NOT NULL DEFAULT 0,
     due_at INTEGER NOT NULL
   ) WITHOUT ROWID`,
  `CREATE INDEX webhooks_due ON webhooks (host, due_at)`,
  // Tokens and requests by hour, and by day once the hours are long ago (usage-table.ts); start in epoch s, UTC.
  `CREATE TABLE usage (
     span TEXT NOT NULL,
     start INTEGER NOT NULL,
     tenant TEXT NOT NULL,
     token_name TEXT NOT NULL,
     config_id TEXT NOT NULL,
     model TEXT NOT NULL,
     mode TEXT NOT NULL,
     requests INTEGER NOT NULL,
     succeeded INTEGER NOT NULL,
     failed INTEGER NOT NULL,
     cancelled INTEGER NOT NULL,
     input INTEGER NOT NULL,
     cached INTEGER NOT NULL,
     output INTEGER NOT NULL,
     reasoning INTEGER NOT NULL,
     wasted INTEGER NOT NULL,
     estimated_requests INTEGER NOT NULL,
     slot_ms INTEGER NOT NULL,
     unpriced_slot_ms INTEGER NOT NULL,
     nanodollars INTEGER NOT NULL,
     PRIMARY KEY (span, start, tenant, token_name, config_id, model, mode)
   ) WITHOUT ROWID`,
  // Attempts whose usage was counted though no job's row says so: fence tokens as ",1,2,", one row per write.
  `CREATE TABLE counted_attempts (
     n INTEGER PRIMARY KEY AUTOINCREMENT,
     first_fence INTEGER NOT NULL,
     last_fence INTEGER NOT NULL,
     fences TEXT NOT NULL
   )`,
  // The limits of tokens and what was used of them, as JSON (admission/accounts.ts).
  `CREATE TABLE limits (
     token_name TEXT PRIMARY KEY,
     tenant TEXT NOT NULL,
     limits TEXT NOT NULL,
     state TEXT NOT NULL,
     admitted TEXT NOT NULL
   ) WITHOUT ROWID`,
  // Counts of what happened to jobs, by pool, as JSON (projections/pool-counts.ts).
  `CREATE TABLE counts (
     config_id TEXT PRIMARY KEY,
     counts TEXT NOT NULL,
     changed_at INTEGER NOT NULL
   ) WITHOUT ROWID`,
];

/** The changes of a queue's tables since the oldest version that is still read. */
export const QUEUE_TABLE_STEPS: TableSteps = {
  // A job that was held back had a `run_after` far in the future.
  26: [
    `ALTER TABLE jobs ADD COLUMN is_held INTEGER NOT NULL DEFAULT 0`,
    `UPDATE jobs SET is_held = 1, run_after = NULL WHERE state = 'pending' AND run_after >= 4000000000000000`,
    `DROP INDEX jobs_ready`,
    JOBS_READY,
    `DROP INDEX jobs_held`,
    JOBS_HELD,
    `ALTER TABLE limits RENAME COLUMN let_in TO admitted`,
  ],
  // Data that only features read had a column each. The columns are joined as texts, since functions for JSON would
  // leave out nulls.
  27: [
    `ALTER TABLE jobs ADD COLUMN extras TEXT`,
    `ALTER TABLE jobs ADD COLUMN is_limited INTEGER NOT NULL DEFAULT 0`,
    `UPDATE jobs SET is_limited = cost IS NOT NULL, extras = '{' || substr(
         iif(weight = 1, '', ',"weight":' || weight) || coalesce(',"cost":' || cost, '')
         || coalesce(',"prefix":' || prefix, '') || coalesce(',"trace":' || trace, '')
         || iif(webhook IS NULL, '', ',"webhook":' || json_quote(webhook)), 2) || '}'
       WHERE weight <> 1 OR cost IS NOT NULL OR prefix IS NOT NULL OR trace IS NOT NULL OR webhook IS NOT NULL`,
    `DROP INDEX jobs_limited`,
    JOBS_LIMITED,
    ...['weight', 'cost', 'prefix', 'trace', 'webhook'].map(
      (column) => `ALTER TABLE jobs DROP COLUMN ${column}`,
    ),
  ],
};
