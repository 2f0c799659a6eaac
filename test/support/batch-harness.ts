import { DatabaseSync } from 'node:sqlite';
import type { NewBatch } from '../../src/batches/batch.ts';
import { createBatch } from '../../src/batches/batches.ts';
import {
  BATCHES_TABLES,
  countNew,
  findBatch,
  insertLine,
  type StoredBatch,
  saveBatch,
} from '../../src/batches/store.ts';
import { createTables, type Row, type Sql } from '../../src/durable/ports.ts';
import { addFile } from '../../src/files/file-index.ts';

export const NOW = Date.UTC(2026, 0, 1);
export const HOUR_MS = 3_600_000;

/** The tables of batches, in memory. */
export function batchTables(): Sql {
  const database = new DatabaseSync(':memory:');
  const sql: Sql = { exec: (query, ...bindings) => database.prepare(query).all(...bindings) as Row[] };
  createTables(sql, BATCHES_TABLES);
  return sql;
}

/** A batch whose lines were found in order. @param models of its lines @param length of each line, which all begin at 0 */
export function runningBatch(
  sql: Sql,
  id: string,
  models: readonly string[],
  more: Partial<NewBatch> = {},
  length = 1,
): StoredBatch {
  const input_file_id = `file-${id}`;
  addFile(sql, {
    id: input_file_id,
    tenant: null,
    filename: 'in.jsonl',
    purpose: 'batch',
    bytes: 1,
    created_at: NOW,
    expires_at: null,
  });
  const asked: NewBatch = {
    id,
    tenant: null,
    token_name: null,
    most_lines: 50_000,
    input_file_id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
    metadata: null,
    output_kept_ms: HOUR_MS,
    output_file_id: `file-${id}-output`,
    error_file_id: `file-${id}-error`,
    created_at: NOW,
    expires_at: NOW + 24 * HOUR_MS,
    ...more,
  };
  createBatch({ sql, now: () => NOW }, asked, null);
  const stored = findBatch(sql, id, null)!;
  for (const [index, model] of models.entries()) {
    const line = {
      number: index + 1,
      custom_id: `line-${index + 1}`,
      model,
      offset: 0,
      length,
      prefix: 0,
    };
    insertLine(sql, stored.seq, line);
  }
  countNew(sql, stored.seq, models);
  Object.assign(stored.batch, { status: 'in_progress', total: models.length });
  saveBatch(sql, stored);
  return stored;
}
