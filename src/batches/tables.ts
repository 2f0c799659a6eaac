import { FILE_INDEX_TABLES } from '../files/file-index.ts';

export const BATCHES_TABLES: readonly string[] = [
  ...FILE_INDEX_TABLES,
  // batch: the whole Batch as JSON; the other columns are those that rows are found by.
  `CREATE TABLE batches (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     tenant TEXT,
     input_file_id TEXT NOT NULL,
     is_over INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     idempotency_key TEXT UNIQUE,
     batch TEXT NOT NULL
   )`,
  `CREATE INDEX batches_active ON batches (seq) WHERE is_over = 0`,
  `CREATE INDEX batches_input ON batches (input_file_id) WHERE is_over = 0`,
  // state: 0 waits to be submitted, 1 submitted, 2 done. The rows are deleted at the end of their batch.
  `CREATE TABLE lines (
     batch INTEGER NOT NULL,
     number INTEGER NOT NULL,
     custom_id TEXT NOT NULL,
     offset INTEGER NOT NULL,
     length INTEGER NOT NULL,
     prefix INTEGER NOT NULL,
     state INTEGER NOT NULL DEFAULT 0,
     model TEXT NOT NULL DEFAULT '',
     PRIMARY KEY (batch, number)
   ) WITHOUT ROWID`,
  `CREATE UNIQUE INDEX lines_custom_id ON lines (batch, custom_id)`,
  `CREATE INDEX lines_open ON lines (batch, state, model, prefix, number) WHERE state < 2`,
  // The numbers of lines of a model that wait to be submitted, and that are submitted: stored, since they are read
  // often.
  `CREATE TABLE line_counts (
     batch INTEGER NOT NULL,
     model TEXT NOT NULL,
     waiting INTEGER NOT NULL,
     submitted INTEGER NOT NULL,
     PRIMARY KEY (batch, model)
   ) WITHOUT ROWID`,
];
