import { DatabaseSync } from 'node:sqlite';
import type { QueueStub } from '../../src/asking/objects.ts';
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
import { addFile, type FileRecord } from '../../src/files/file-index.ts';
import type { SubmitJob } from '../../src/queue/rpc.ts';
import type { QueueHarness } from './queue-harness.ts';

export const NOW = Date.UTC(2026, 0, 1);
export const HOUR_MS = 3_600_000;

/** The tables of batches, in memory. */
export function batchTables(): Sql {
  const database = new DatabaseSync(':memory:');
  const sql: Sql = { exec: (query, ...bindings) => database.prepare(query).all(...bindings) as Row[] };
  createTables(sql, BATCHES_TABLES);
  return sql;
}

/** What the gateway's part of batches asks of a queue. */
export function batchCalls(harness: QueueHarness): Partial<QueueStub> {
  const told = <T>(ask: (answer: (value: T) => void) => void) =>
    new Promise<T>((answer) => {
      ask(answer);
      harness.queue.answerListeners();
    });
  return {
    submitAndListen: (jobs: SubmitJob[], listener) =>
      told((answer) => answer(harness.queue.do('submitAndListen', jobs, [], listener))),
    listen: async (listener, ids) => harness.queue.do('listen', listener, ids, null),
    nextSettled: (listener, waitMs) =>
      told((answer) => harness.queue.wait('nextSettled', listener, waitMs, answer)),
    leaveListener: async (listener) => harness.queue.do('leaveListener', listener),
    batchSlots: async (models) => harness.queue.read('batchSlots', models),
    get: async (id) => harness.queue.read('get', id, null),
    cancel: async (id, reason) => harness.queue.do('cancel', id, reason, null),
  };
}

/** A file with the input of a batch. */
export function inputFile(id: string): FileRecord {
  return {
    id,
    tenant: null,
    filename: 'in.jsonl',
    purpose: 'batch',
    bytes: 1,
    created_at: NOW,
    expires_at: null,
  };
}

export function newBatch(id: string, more: Partial<NewBatch> = {}): NewBatch {
  return {
    id,
    tenant: null,
    token_name: null,
    most_lines: 50_000,
    input_file_id: `file-${id}`,
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
}

/** A batch whose lines were found in order. @param models of its lines @param length of each line, which all begin at 0 */
export function runningBatch(
  sql: Sql,
  id: string,
  models: readonly string[],
  more: Partial<NewBatch> = {},
  length = 1,
): StoredBatch {
  const asked = newBatch(id, more);
  addFile(sql, inputFile(asked.input_file_id));
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
