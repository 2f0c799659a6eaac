/** `jobs` is the one truth about a job; the partial indexes keep dispatch flat however many are settled. */
export const QUEUE_TABLES: readonly string[] = [
  `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID`,
  // settlement: its number in the order of settlements (settlements-table.ts). webhook: where that is posted.
  // started_at, first_token_at: of the newest attempt, told by its settlement (ledger.ts). file_key: the key to the
  // files of the newest attempt (tickets.ts). output_*: how much was taken of it (output-cursor.ts).
  // stream 1: a relay carries the answer too, while it is made. token_name: it was submitted with. weight: of
  // that token, as jobs of its tenant are charged. trace: see protocol/trace-context.ts. prefix: prefix-rpc.ts. model: that it
  // names. cost: state/job.ts, of tokens with limits. payload_file: where a payload lies that is too long for the row.
  // result_file: where the newest attempt, or the one that settled the job, put its result. partial: JSON of the
  // KeptPartial that the next attempt goes on from (state/kept-partial.ts). All times in epoch ms.
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
     webhook TEXT,
     output_fence INTEGER,
     output_taken INTEGER NOT NULL DEFAULT 0,
     token_name TEXT,
     weight REAL NOT NULL DEFAULT 1,
     trace TEXT,
     prefix TEXT,
     model TEXT,
     payload_file TEXT,
     result_file TEXT,
     cost TEXT,
     partial TEXT
   )`,
  // With the tenant in them, what is pending is counted without a look at the rows (pending-table.ts), and before `seq`
  // the oldest job of any tenant is found, however many others have.
  `CREATE INDEX jobs_ready ON jobs (config_id, priority DESC, tenant, seq)
     WHERE state = 'pending' AND run_after IS NULL`,
  `CREATE INDEX jobs_delayed ON jobs (run_after, config_id, tenant)
     WHERE state = 'pending' AND run_after IS NOT NULL`,
  // Of tokens with limits: what they hold back, in the order in which it is let in, and what they have let in.
  `CREATE INDEX jobs_held ON jobs (token_name, config_id, priority DESC, seq)
     WHERE state = 'pending' AND run_after >= 4000000000000000`,
  `CREATE INDEX jobs_limited ON jobs (token_name) WHERE cost IS NOT NULL AND settled_at IS NULL`,
  `CREATE INDEX jobs_leased ON jobs (lease_expires_at) WHERE state = 'leased'`,
  `CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL AND settled_at IS NULL`,
  // They hold the columns of the filters, so a job that does not pass costs no read of its row.
  `CREATE INDEX jobs_settled ON jobs (settlement, settled_at, config_id, tenant) WHERE settlement IS NOT NULL`,
  `CREATE INDEX jobs_listed ON jobs (created_at, seq, config_id, tenant, job_type)`,
  // Lists of what went wrong, and nothing to write for a job that goes well. `cancelled`, `expired` and `failed` come
  // before the other states in the alphabet; with a list of them every change of a job cost 4 µs more (measured).
  `CREATE INDEX jobs_ended_badly ON jobs (created_at, seq, state, config_id, tenant, job_type)
     WHERE state < 'leased'`,
  // What happened to each job, step by step (ledger-table.ts); `job` is jobs.seq.
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
  // What a worker's reconnect needs. token_name: it registered with; null: none was asked for. adapters: JSON of its
  // AdapterState; null: it loads none.
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
  // Posts of settlements that no receiver has taken yet (webhooks-table.ts).
  `CREATE TABLE webhooks (
     id TEXT PRIMARY KEY,
     job_id TEXT NOT NULL,
     host TEXT NOT NULL,
     url TEXT NOT NULL,
     tries INTEGER NOT NULL DEFAULT 0,
     due_at INTEGER NOT NULL
   ) WITHOUT ROWID`,
  `CREATE INDEX webhooks_due ON webhooks (host, due_at)`,
  // Tokens and requests, by the hour and, once that is long ago, by the day (usage-table.ts); start in epoch s, UTC.
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
  // Attempts whose usage was counted though no row of a job says so: fence tokens as ",1,2,", a row a write.
  `CREATE TABLE counted_attempts (
     n INTEGER PRIMARY KEY AUTOINCREMENT,
     first_fence INTEGER NOT NULL,
     last_fence INTEGER NOT NULL,
     fences TEXT NOT NULL
   )`,
  // The limits of tokens and what was used of them, as JSON (limits-table.ts).
  `CREATE TABLE limits (
     token_name TEXT PRIMARY KEY,
     tenant TEXT NOT NULL,
     limits TEXT NOT NULL,
     state TEXT NOT NULL,
     let_in TEXT NOT NULL
   ) WITHOUT ROWID`,
  // What happened to jobs, counted by pool, as JSON (state/pool-counts.ts).
  `CREATE TABLE counts (
     config_id TEXT PRIMARY KEY,
     counts TEXT NOT NULL,
     changed_at INTEGER NOT NULL
   ) WITHOUT ROWID`,
];
