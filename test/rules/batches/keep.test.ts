import { expect, it } from 'vitest';
import { findBatch } from '../../../src/batches/batch-table.ts';
import { createBatch } from '../../../src/batches/batches.ts';
import type { BatchPorts } from '../../../src/batches/ports.ts';
import { validate } from '../../../src/batches/validate.ts';
import { addFile } from '../../../src/files/file-index.ts';
import { inferenceRoutes } from '../../../src/protocol/index.ts';
import { batchTables, HOUR_MS, NOW } from '../../support/batch-harness.ts';

const LINE = JSON.stringify({ custom_id: 'a', url: '/v1/embeddings', body: { model: 'm' } });

it('keeps an input as long as the batch that reads it longest, whichever came last', async () => {
  const sql = batchTables();
  const bytes = new TextEncoder().encode(LINE);
  const record = { id: 'file-in', tenant: null, filename: 'in.jsonl', purpose: 'batch' } as const;
  addFile(sql, { ...record, bytes: bytes.byteLength, created_at: NOW, expires_at: NOW + HOUR_MS });
  let keptUntil = NOW + HOUR_MS;
  const ports = {
    sql,
    now: () => NOW,
    routes: inferenceRoutes(),
    files: {
      size: async () => bytes.byteLength,
      read: async () => bytes,
      keep: async (_: string, until: number) => {
        keptUntil = until;
      },
    },
    log: () => {},
  } as unknown as BatchPorts;
  const begin = async (id: string, hours: number) => {
    const asked = {
      ...{ id, tenant: null, token_name: null, most_lines: 10, input_file_id: 'file-in', metadata: null },
      ...{ endpoint: '/v1/embeddings', completion_window: `${hours}h`, output_kept_ms: HOUR_MS },
      ...{ output_file_id: `${id}-out`, error_file_id: `${id}-errors` },
      ...{ created_at: NOW, expires_at: NOW + hours * HOUR_MS },
    };
    createBatch(ports, asked, null);
    await validate(ports, findBatch(sql, id, null)!);
  };
  await begin('batch_long', 720);
  await begin('batch_short', 24);
  expect(keptUntil).toBeGreaterThan(NOW + 720 * HOUR_MS);
});
