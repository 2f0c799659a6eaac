-- The database of a queue's batches as version 28 wrote it, with a batch that runs.
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE files (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     tenant TEXT,
     filename TEXT NOT NULL,
     purpose TEXT NOT NULL,
     bytes INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     expires_at INTEGER
   );
CREATE INDEX files_expire ON files (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE batches (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     tenant TEXT,
     input_file_id TEXT NOT NULL,
     is_over INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     idempotency_key TEXT UNIQUE,
     batch TEXT NOT NULL
   );
CREATE INDEX batches_active ON batches (seq) WHERE is_over = 0;
CREATE INDEX batches_input ON batches (input_file_id) WHERE is_over = 0;
CREATE TABLE lines (
     batch INTEGER NOT NULL,
     number INTEGER NOT NULL,
     custom_id TEXT NOT NULL,
     offset INTEGER NOT NULL,
     length INTEGER NOT NULL,
     prefix INTEGER NOT NULL,
     state INTEGER NOT NULL DEFAULT 0,
     model TEXT NOT NULL DEFAULT '',
     PRIMARY KEY (batch, number)
   ) WITHOUT ROWID;
CREATE UNIQUE INDEX lines_custom_id ON lines (batch, custom_id);
CREATE INDEX lines_open ON lines (batch, state, model, prefix, number) WHERE state < 2;
CREATE TABLE line_counts (
     batch INTEGER NOT NULL,
     model TEXT NOT NULL,
     waiting INTEGER NOT NULL,
     submitted INTEGER NOT NULL,
     PRIMARY KEY (batch, model)
   ) WITHOUT ROWID;
INSERT INTO schema_version (version) VALUES (28);
INSERT INTO files (seq, id, tenant, filename, purpose, bytes, created_at, expires_at) VALUES (1, 'file-batch_1', NULL, 'in.jsonl', 'batch', 1, 1767225600000, NULL);
INSERT INTO batches (seq, id, tenant, input_file_id, is_over, created_at, idempotency_key, batch) VALUES (1, 'batch_1', NULL, 'file-batch_1', 0, 1767225600000, NULL, '{"id":"batch_1","tenant":null,"token_name":null,"most_lines":50000,"input_file_id":"file-batch_1","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":null,"output_kept_ms":3600000,"output_file_id":"file-batch_1-output","error_file_id":"file-batch_1-error","created_at":1767225600000,"expires_at":1767312000000,"status":"in_progress","is_expiring":false,"faults":[],"scanned_bytes":0,"scanned_lines":0,"found_lines":0,"total":2,"completed":0,"failed":0,"output_lines":0,"output_bytes":0,"error_lines":0,"error_bytes":0,"error_counts":{},"usage":{"input_tokens":0,"cached_tokens":0,"output_tokens":0,"reasoning_tokens":0},"in_progress_at":null,"finalizing_at":null,"completed_at":null,"failed_at":null,"expired_at":null,"cancelling_at":null,"cancelled_at":null}');
INSERT INTO lines (batch, number, custom_id, offset, length, prefix, state, model) VALUES (1, 1, 'a', 0, 100, 0, 0, 'tiny');
INSERT INTO lines (batch, number, custom_id, offset, length, prefix, state, model) VALUES (1, 2, 'b', 101, 100, 0, 0, 'tiny');
INSERT INTO line_counts (batch, model, waiting, submitted) VALUES (1, 'tiny', 2, 0);
