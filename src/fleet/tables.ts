import type { TableSteps } from '../durable/ports.ts';
import { SCHEDULER_TABLES } from '../scheduler/state.ts';

/** How each receiver of alerts took what was sent to it, and the mutes in force, JSON (features/alerts). */
const ALERT_TABLES: readonly string[] = [
  `CREATE TABLE alert_receivers (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID`,
  `CREATE TABLE alert_mutes (id TEXT PRIMARY KEY, mute TEXT NOT NULL) WITHOUT ROWID`,
];

export const FLEET_TABLES: readonly string[] = [
  // was_running: the number of jobs that the worker ran when its last connection ended.
  `CREATE TABLE workers (
     worker_id TEXT PRIMARY KEY,
     config_id TEXT,
     instance TEXT,
     heartbeat TEXT,
     heartbeat_at INTEGER,
     disconnected_at INTEGER,
     disconnect_reason TEXT,
     was_running INTEGER,
     heard_at INTEGER NOT NULL
   ) WITHOUT ROWID`,
  `CREATE INDEX workers_heard ON workers (heard_at)`,
  // worker_id: the worker that served the model last. card: the engine's entry for the model, JSON. position: the
  // model's place among the models of the worker.
  `CREATE TABLE models (
     model TEXT NOT NULL,
     config_id TEXT NOT NULL,
     worker_id TEXT NOT NULL,
     first_seen INTEGER NOT NULL,
     last_seen INTEGER NOT NULL,
     card TEXT,
     position INTEGER NOT NULL DEFAULT 0,
     PRIMARY KEY (model, config_id)
   ) WITHOUT ROWID`,
  `CREATE INDEX models_seen ON models (last_seen)`,
  `CREATE INDEX models_worker ON models (worker_id, last_seen)`,
  // Log lines and samples of workers, many to a row: numbers first to first + count - 1. size: UTF-16 units.
  `CREATE TABLE telemetry (
     worker_id TEXT NOT NULL,
     kind TEXT NOT NULL,
     first INTEGER NOT NULL,
     count INTEGER NOT NULL,
     size INTEGER NOT NULL,
     at INTEGER NOT NULL,
     items TEXT NOT NULL
   )`,
  `CREATE UNIQUE INDEX telemetry_first ON telemetry (worker_id, kind, first)`,
  `CREATE INDEX telemetry_at ON telemetry (at, size)`,
  // Requests that have ended, numbered as the queue reported them: the fields of a RequestRecord. is_notable: the
  // request failed or was slow.
  `CREATE TABLE requests (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     id TEXT NOT NULL,
     request_id TEXT,
     kind TEXT NOT NULL,
     submitted_at INTEGER NOT NULL,
     ended_at INTEGER NOT NULL,
     config_id TEXT NOT NULL,
     model TEXT NOT NULL,
     route TEXT NOT NULL,
     tenant TEXT,
     token_name TEXT,
     worker_id TEXT,
     attempts INTEGER NOT NULL,
     outcome TEXT NOT NULL,
     error_code TEXT,
     error TEXT,
     tokens_in INTEGER,
     tokens_out INTEGER,
     cached_tokens INTEGER,
     wait_ms INTEGER NOT NULL,
     first_token_ms INTEGER,
     total_ms INTEGER NOT NULL,
     is_slow INTEGER NOT NULL,
     stands_for INTEGER NOT NULL,
     is_notable INTEGER NOT NULL,
     alias TEXT,
     fallback TEXT
   )`,
  `CREATE UNIQUE INDEX requests_id ON requests (id, ended_at)`,
  `CREATE INDEX requests_request_id ON requests (request_id) WHERE request_id IS NOT NULL`,
  `CREATE INDEX requests_notable ON requests (is_notable, seq)`,
  // Browsers that are signed in to the page (tokens.ts).
  `CREATE TABLE sign_ins (
     id_sha256 TEXT PRIMARY KEY,
     token_sha256 TEXT NOT NULL,
     expires_at INTEGER NOT NULL
   ) WITHOUT ROWID`,
  // Tokens that were made with POST /api/tokens (tokens.ts). entry: JSON, with the hash of the token.
  `CREATE TABLE tokens (name TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID`,
  `CREATE TABLE token_uses (sha256 TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID`,
  // What people did (audit.ts). nth: the entry's number among those of its action; before, after: JSON. Only the
  // default queue's object has rows, for all queues.
  `CREATE TABLE audit (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     id TEXT NOT NULL UNIQUE,
     at INTEGER NOT NULL,
     actor TEXT,
     subject TEXT,
     tenant TEXT,
     action TEXT NOT NULL,
     nth INTEGER NOT NULL,
     target TEXT NOT NULL,
     before TEXT,
     after TEXT,
     outcome TEXT NOT NULL,
     error TEXT,
     ended_at INTEGER,
     route TEXT NOT NULL,
     queue_id TEXT NOT NULL
   )`,
  `CREATE INDEX audit_at ON audit (at)`,
  `CREATE INDEX audit_actor ON audit (actor, seq)`,
  `CREATE INDEX audit_action ON audit (action, nth)`,
  `CREATE INDEX audit_target ON audit (target, seq)`,
  // Tokens of a file or a setting as they were last reported, JSON, so that their changes are seen.
  `CREATE TABLE file_tokens (name TEXT PRIMARY KEY, entries TEXT NOT NULL) WITHOUT ROWID`,
  // Problems of the attention list that were reported or acknowledged (features/alerts), JSON.
  `CREATE TABLE attention (id TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID`,
  ...ALERT_TABLES,
  // The history, ten minutes of a subject to a row, or a day by hour: columns by name, JSON, of steps from start on.
  `CREATE TABLE history (
     kind TEXT NOT NULL,
     id TEXT NOT NULL,
     step_ms INTEGER NOT NULL,
     start INTEGER NOT NULL,
     columns TEXT NOT NULL,
     PRIMARY KEY (kind, id, step_ms, start)
   ) WITHOUT ROWID`,
  `CREATE INDEX history_age ON history (step_ms, start)`,
  // told: the queue's counts that are in the history, JSON. starts: how long the pool's newest starts took, JSON.
  `CREATE TABLE pools (
     config_id TEXT PRIMARY KEY,
     told TEXT,
     starts TEXT NOT NULL,
     heard_at INTEGER NOT NULL
   ) WITHOUT ROWID`,
  ...SCHEDULER_TABLES,
];

/** The statements that bring the tables of older versions up to date. */
export const FLEET_TABLE_STEPS: TableSteps = {
  28: [`ALTER TABLE requests ADD COLUMN alias TEXT`, `ALTER TABLE requests ADD COLUMN fallback TEXT`],
  29: [`DROP TABLE responses`],
  30: [`ALTER TABLE audit ADD COLUMN subject TEXT`, ...ALERT_TABLES],
};
