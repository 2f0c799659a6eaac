/**
 * The schema, numbered and forward only: a released step is never edited, the next one is added.
 * `jobs` is the one truth about a job; the partial indexes keep dispatch flat however many are settled.
 */
export const MIGRATIONS: readonly string[][] = [
  [
    `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID`,
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
       lease_orphaned INTEGER NOT NULL DEFAULT 0
     )`,
    `CREATE INDEX jobs_ready ON jobs (config_id, priority DESC, seq) WHERE state = 'pending' AND run_after IS NULL`,
    `CREATE INDEX jobs_delayed ON jobs (run_after) WHERE state = 'pending' AND run_after IS NOT NULL`,
    `CREATE INDEX jobs_leased ON jobs (lease_expires_at) WHERE state = 'leased'`,
    `CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL AND settled_at IS NULL`,
    // Texts too long for one row (Cloudflare: 2 MB), in pieces.
    `CREATE TABLE long_texts (
       job_id TEXT NOT NULL,
       kind TEXT NOT NULL,
       part INTEGER NOT NULL,
       text TEXT NOT NULL,
       PRIMARY KEY (job_id, kind, part)
     ) WITHOUT ROWID`,
    `CREATE TABLE models (
       model TEXT NOT NULL,
       config_id TEXT NOT NULL,
       first_seen INTEGER NOT NULL,
       PRIMARY KEY (model, config_id)
     ) WITHOUT ROWID`,
    `CREATE TABLE workers (
       worker_id TEXT PRIMARY KEY,
       config_id TEXT,
       instance TEXT,
       heartbeat TEXT,
       heartbeat_at INTEGER
     ) WITHOUT ROWID`,
  ],
  [
    // What happened to each job, step by step (ledger.ts); `job` is jobs.seq.
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
    `ALTER TABLE jobs ADD COLUMN tenant TEXT`,
    `ALTER TABLE workers ADD COLUMN heard_at INTEGER`,
    // With the tenant in them, what is pending is counted without a look at the rows (pending.ts).
    `DROP INDEX jobs_ready`,
    `DROP INDEX jobs_delayed`,
    `CREATE INDEX jobs_ready ON jobs (config_id, priority DESC, seq, tenant)
       WHERE state = 'pending' AND run_after IS NULL`,
    `CREATE INDEX jobs_delayed ON jobs (run_after, config_id, tenant)
       WHERE state = 'pending' AND run_after IS NOT NULL`,
    `CREATE INDEX jobs_settled ON jobs (settled_at) WHERE settled_at IS NOT NULL`,
  ],
  [
    // Results that were put beside their job and not yet announced (tickets.ts), in pieces.
    `CREATE TABLE uploads (
       job_id TEXT NOT NULL,
       part INTEGER NOT NULL,
       fence_token INTEGER NOT NULL,
       text TEXT NOT NULL,
       PRIMARY KEY (job_id, part)
     ) WITHOUT ROWID`,
    // The key to the files of the newest attempt.
    `ALTER TABLE jobs ADD COLUMN file_key TEXT`,
  ],
  [
    // Of the newest attempt, told by its settlement (ledger.ts); epoch ms.
    `ALTER TABLE jobs ADD COLUMN started_at INTEGER`,
    `ALTER TABLE jobs ADD COLUMN first_token_at INTEGER`,
  ],
  [
    // Long texts that lie in the bucket instead of in rows (blob-table.ts).
    `CREATE TABLE bucket_files (
       key TEXT PRIMARY KEY,
       job_id TEXT NOT NULL,
       state TEXT NOT NULL,
       fence_token INTEGER,
       sha256 TEXT,
       suits_base INTEGER,
       delete_at INTEGER
     ) WITHOUT ROWID`,
    `CREATE INDEX bucket_files_job ON bucket_files (job_id)`,
    `CREATE INDEX bucket_files_due ON bucket_files (delete_at) WHERE delete_at IS NOT NULL`,
  ],
  [
    // What is known of workers and models went to the fleet object (fleet-events.ts); a reconnect needs this.
    `CREATE TABLE sessions (
       worker_id TEXT PRIMARY KEY,
       config_id TEXT NOT NULL,
       boot_id TEXT,
       models TEXT NOT NULL,
       is_connected INTEGER NOT NULL,
       heard_at INTEGER NOT NULL
     ) WITHOUT ROWID`,
    `INSERT INTO sessions
       SELECT worker_id, config_id, json_extract(instance, '$.boot_id'),
         coalesce(json_extract(instance, '$.models'), '[]'), 0,
         coalesce(heard_at, (SELECT max(heard_at) FROM workers), 0)
       FROM workers WHERE config_id IS NOT NULL`,
    `ALTER TABLE workers RENAME TO workers_before_fleet`,
    `DROP TABLE models`,
  ],
  [
    // Name of the token that it registered with; null: none was asked for.
    `ALTER TABLE sessions ADD COLUMN token_name TEXT`,
  ],
  [
    // Keys of the bucket belong to an owner: a job, later others (blob-table.ts).
    `ALTER TABLE bucket_files RENAME COLUMN job_id TO owner_id`,
    `ALTER TABLE bucket_files ADD COLUMN owner_kind TEXT NOT NULL DEFAULT 'job'`,
    `DROP INDEX bucket_files_job`,
    `CREATE INDEX bucket_files_owner ON bucket_files (owner_kind, owner_id)`,
  ],
  [
    // 1: a relay carries the answer too, while it is made.
    `ALTER TABLE jobs ADD COLUMN stream INTEGER NOT NULL DEFAULT 0`,
  ],
  [
    // Settlements are numbered in their order, which readers of them go on from (settlements-table.ts).
    `ALTER TABLE jobs ADD COLUMN settlement INTEGER`,
    `UPDATE jobs SET settlement = settled.n FROM (
       SELECT seq, row_number() OVER (ORDER BY settled_at, seq) AS n FROM jobs WHERE settled_at IS NOT NULL
     ) AS settled WHERE jobs.seq = settled.seq`,
    `DROP INDEX jobs_settled`,
    // With what they are filtered by in them, jobs are passed over without a look at their rows.
    `CREATE INDEX jobs_settled ON jobs (settlement, settled_at, config_id, tenant) WHERE settlement IS NOT NULL`,
    `CREATE INDEX jobs_listed ON jobs (created_at, seq, config_id, tenant, job_type)`,
    // Where its settlement is posted.
    `ALTER TABLE jobs ADD COLUMN webhook TEXT`,
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
  ],
  [
    // How much of the output was taken piece by piece, and from which attempt (output-cursor.ts).
    `ALTER TABLE jobs ADD COLUMN output_fence INTEGER`,
    `ALTER TABLE jobs ADD COLUMN output_taken INTEGER NOT NULL DEFAULT 0`,
  ],
  [
    `ALTER TABLE jobs ADD COLUMN token_name TEXT`,
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
       PRIMARY KEY (span, start, tenant, token_name, config_id, model, mode)
     ) WITHOUT ROWID`,
    // Attempts whose usage was counted though no row of a job says so: fence tokens as ",1,2,", a row a write.
    `CREATE TABLE counted_attempts (
       n INTEGER PRIMARY KEY AUTOINCREMENT,
       first_fence INTEGER NOT NULL,
       last_fence INTEGER NOT NULL,
       fences TEXT NOT NULL
     )`,
  ],
  [
    // Lists of what went wrong, and nothing to write for a job that goes well. `cancelled`, `expired` and `failed` come
    // before the other states in the alphabet; with a list of them every change of a job cost 4 µs more (measured).
    `CREATE INDEX jobs_ended_badly ON jobs (created_at, seq, state, config_id, tenant, job_type)
       WHERE state < 'leased'`,
  ],
  [
    // What happened to jobs, counted by config, as JSON (state/config-counts.ts).
    `CREATE TABLE counts (
       config_id TEXT PRIMARY KEY,
       counts TEXT NOT NULL,
       changed_at INTEGER NOT NULL
     ) WITHOUT ROWID`,
  ],
  [
    // Which trace its submission belongs to (protocol/trace-context.ts).
    `ALTER TABLE jobs ADD COLUMN trace TEXT`,
  ],
  [
    // Asked for once in the life of an object (state/uploads.ts).
    `CREATE INDEX bucket_files_uploads ON bucket_files (owner_kind, owner_id) WHERE state = 'upload'`,
  ],
];
