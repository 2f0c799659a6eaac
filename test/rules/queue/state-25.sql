-- A queue's database as version 25 wrote it: jobs of a token with limits, one that runs and two that are held back;
-- of another token one that runs, one that waits for its next attempt, and one that is ready.
CREATE TABLE counted_attempts (
     n INTEGER PRIMARY KEY AUTOINCREMENT,
     first_fence INTEGER NOT NULL,
     last_fence INTEGER NOT NULL,
     fences TEXT NOT NULL
   );
CREATE TABLE counts (
     config_id TEXT PRIMARY KEY,
     counts TEXT NOT NULL,
     changed_at INTEGER NOT NULL
   ) WITHOUT ROWID;
INSERT INTO "counts" VALUES('cfg','{"submitted":{"waiting":0,"stored":6},"submitted_in_background":0,"settled":{"waiting":{"succeeded":0,"failed":0,"cancelled":0,"expired":0,"rejected":0},"stored":{"succeeded":0,"failed":0,"cancelled":0,"expired":0,"rejected":0}},"turned_away":0,"retried":0,"dispatches":3,"attempts":{"succeeded":0,"failed":1,"lease_expired":0,"released":0,"cancelled":0,"expired":0},"releases":{"draining":0,"overloaded":0,"deadline":0,"not_started":0,"engine_restarting":0,"returned":0},"fence_refusals":0,"tokens":{"input":0,"output":0,"cached_input":0,"reasoning":0,"wasted":0},"cost":[],"prefix_hits":{"predicted":0,"seen":0},"slots_per_worker":2,"estimated":0,"queue_wait":{"counts":[3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"sum":0},"first_token":{"counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"sum":0},"live_first_token":{"counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"sum":0},"per_token":{"counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"sum":0},"duration":{"counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"sum":0},"run":{"counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"sum":0}}',1767225600000);
CREATE TABLE jobs (
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
   );
INSERT INTO "jobs" VALUES(1,'runs','chat_completion','cfg','leased',0,0,3,1,'w','{"messages":[]}',NULL,NULL,'[]',NULL,NULL,1767225600000,1767225600000,NULL,NULL,NULL,1767225630000,0,'a','8000000080000000800000008000000080000000800000008000000080000000',NULL,NULL,0,NULL,NULL,NULL,0,'a',1.0,NULL,NULL,NULL,NULL,NULL,'{"model":null,"served":"tiny","tokens":10}',NULL);
INSERT INTO "jobs" VALUES(2,'held-1','chat_completion','cfg','pending',0,0,3,0,NULL,'{"messages":[]}',NULL,NULL,'[]',NULL,NULL,1767225600000,NULL,NULL,8000000000000000,NULL,NULL,0,'a',NULL,NULL,NULL,0,NULL,NULL,NULL,0,'a',1.0,NULL,NULL,NULL,NULL,NULL,'{"model":null,"served":"tiny","tokens":10}',NULL);
INSERT INTO "jobs" VALUES(3,'held-2','chat_completion','cfg','pending',0,0,3,0,NULL,'{"messages":[]}',NULL,NULL,'[]',NULL,NULL,1767225600000,NULL,NULL,8000000000000000,NULL,NULL,0,'a',NULL,NULL,NULL,0,NULL,NULL,NULL,0,'a',1.0,NULL,NULL,NULL,NULL,NULL,'{"model":null,"served":"tiny","tokens":10}',NULL);
INSERT INTO "jobs" VALUES(4,'fails','chat_completion','cfg','pending',0,1,3,2,'w','{"messages":[]}',NULL,NULL,'[{"message":"busy","code":"worker_error","retryable":true,"attempt":1,"fence_token":2,"worker_id":"w","at":"2026-01-01T00:00:00.000Z"}]',NULL,NULL,1767225600000,1767225600000,NULL,1767225600750,NULL,NULL,0,'free','8000000080000000800000008000000080000000800000008000000080000000',NULL,NULL,0,NULL,NULL,NULL,0,'free',1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(5,'second','chat_completion','cfg','leased',0,0,3,3,'w','{"messages":[]}',NULL,NULL,'[]',NULL,NULL,1767225600000,1767225600000,NULL,NULL,NULL,1767225630000,0,'free','8000000080000000800000008000000080000000800000008000000080000000',NULL,NULL,0,NULL,NULL,NULL,0,'free',1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(6,'ready','chat_completion','cfg','pending',0,0,3,0,NULL,'{"messages":[]}',NULL,NULL,'[]',NULL,NULL,1767225600000,NULL,NULL,NULL,NULL,NULL,0,'free',NULL,NULL,NULL,0,NULL,NULL,NULL,0,'free',1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE ledger (
     job INTEGER NOT NULL,
     n INTEGER NOT NULL,
     at INTEGER NOT NULL,
     step TEXT NOT NULL,
     attempt INTEGER NOT NULL,
     fence_token INTEGER NOT NULL,
     worker_id TEXT,
     detail TEXT,
     PRIMARY KEY (job, n)
   ) WITHOUT ROWID;
INSERT INTO "ledger" VALUES(4,1,1767225600000,'dispatched',1,2,'w',NULL);
INSERT INTO "ledger" VALUES(4,2,1767225600000,'attempt_failed',1,2,'w','worker_error: busy; again in 750 ms');
CREATE TABLE limits (
     token_name TEXT PRIMARY KEY,
     tenant TEXT NOT NULL,
     limits TEXT NOT NULL,
     state TEXT NOT NULL,
     let_in TEXT NOT NULL
   ) WITHOUT ROWID;
INSERT INTO "limits" VALUES('a','a','{"running":1}','{"":{"requests":[[1767225600,1]],"tokens":[]}}','[]');
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('next_fence','65537.0');
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO "schema_version" VALUES(25);
CREATE TABLE sessions (
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
   ) WITHOUT ROWID;
INSERT INTO "sessions" VALUES('w','cfg','w-boot','["tiny"]',NULL,1,1767225600000,NULL,2,NULL);
CREATE TABLE usage (
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
   ) WITHOUT ROWID;
CREATE TABLE webhooks (
     id TEXT PRIMARY KEY,
     job_id TEXT NOT NULL,
     host TEXT NOT NULL,
     url TEXT NOT NULL,
     tries INTEGER NOT NULL DEFAULT 0,
     due_at INTEGER NOT NULL
   ) WITHOUT ROWID;
CREATE INDEX jobs_ready ON jobs (config_id, priority DESC, tenant, seq)
     WHERE state = 'pending' AND run_after IS NULL;
CREATE INDEX jobs_delayed ON jobs (run_after, config_id, tenant)
     WHERE state = 'pending' AND run_after IS NOT NULL;
CREATE INDEX jobs_held ON jobs (token_name, config_id, priority DESC, seq)
     WHERE state = 'pending' AND run_after >= 4000000000000000;
CREATE INDEX jobs_limited ON jobs (token_name) WHERE cost IS NOT NULL AND settled_at IS NULL;
CREATE INDEX jobs_leased ON jobs (lease_expires_at) WHERE state = 'leased';
CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL AND settled_at IS NULL;
CREATE INDEX jobs_settled ON jobs (settlement, settled_at, config_id, tenant) WHERE settlement IS NOT NULL;
CREATE INDEX jobs_listed ON jobs (created_at, seq, config_id, tenant, job_type);
CREATE INDEX jobs_ended_badly ON jobs (created_at, seq, state, config_id, tenant, job_type)
     WHERE state < 'leased';
CREATE INDEX webhooks_due ON webhooks (host, due_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',6);
