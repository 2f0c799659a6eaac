import { expect, it } from 'vitest';
import { createBatch } from '../../../src/batches/batches.ts';
import type { BatchPorts } from '../../../src/batches/ports.ts';
import { findBatch } from '../../../src/batches/store.ts';
import { validate } from '../../../src/batches/validate.ts';
import { addFile } from '../../../src/files/file-index.ts';
import { inferenceRoutes } from '../../../src/protocol/index.ts';
import { batchTables, HOUR_MS, NOW } from '../../support/batch-harness.ts';

const UNSERVED = { code: 'model_not_found', message: 'Nobody serves it.' };

/** Batches over one input, as the runner validates them. */
function input(text: string, expires_at: number | null = null) {
  const sql = batchTables();
  const bytes = new TextEncoder().encode(text);
  const record = { id: 'file-in', tenant: null, filename: 'in.jsonl', purpose: 'batch' } as const;
  addFile(sql, { ...record, bytes: bytes.byteLength, created_at: NOW, expires_at });
  const kept: number[] = [];
  const ports = {
    sql,
    now: () => NOW,
    routes: inferenceRoutes(),
    files: {
      size: async () => bytes.byteLength,
      read: async (_: string, offset: number, length: number) => bytes.subarray(offset, offset + length),
      keep: async (_: string, until: number) => void kept.push(until),
    },
    queue: {
      unserved: async (models: (string | null)[]) =>
        models.map((model) => (model?.startsWith('unknown') ? UNSERVED : null)),
    },
    ended: () => {},
    log: () => {},
  } as unknown as BatchPorts;
  const begin = async (id: string, hours = 24) => {
    const asked = {
      ...{ id, tenant: null, token_name: null, most_lines: 50_000, input_file_id: 'file-in', metadata: null },
      ...{ endpoint: '/v1/embeddings', completion_window: `${hours}h`, output_kept_ms: HOUR_MS },
      ...{ output_file_id: `${id}-out`, error_file_id: `${id}-errors` },
      ...{ created_at: NOW, expires_at: NOW + hours * HOUR_MS },
    };
    createBatch(ports, asked, null);
    const batch = () => findBatch(sql, id, null)!;
    while (batch().batch.status === 'validating') await validate(ports, batch());
    return batch().batch;
  };
  return { begin, kept };
}

const line = (custom_id: string, model: string) =>
  JSON.stringify({ custom_id, url: '/v1/embeddings', body: { model } });

it('keeps an input as long as the batch that reads it longest, whichever came last', async () => {
  const { begin, kept } = input(line('a', 'm'), NOW + HOUR_MS);
  await begin('batch_long', 720);
  await begin('batch_short', 24);
  expect(kept.at(-1)).toBeGreaterThan(NOW + 720 * HOUR_MS);
});

it('begins a batch of a thousand models, and none of more', async () => {
  const lines = Array.from({ length: 1001 }, (_, n) => line(`line-${n}`, `model-${n}`));
  expect((await input(lines.slice(1).join('\n')).begin('batch_a')).status).toBe('in_progress');
  const { status, faults } = await input(lines.join('\n')).begin('batch_b');
  expect(status).toBe('failed');
  expect(faults).toMatchObject([{ code: 'too_many_models', message: expect.stringContaining('1001') }]);
});

it('fails a batch of which nobody serves any model, each line with its cause', async () => {
  const text = [line('a', 'unknown-1'), '', line('b', 'unknown-2')].join('\n');
  const { status, faults } = await input(text).begin('batch_a');
  expect(status).toBe('failed');
  expect(faults).toEqual([
    { ...UNSERVED, param: 'body.model', line: 1 },
    { ...UNSERVED, param: 'body.model', line: 3 },
  ]);
});

it('begins a batch of which some models are served, and notes the others', async () => {
  const { status, unserved } = await input([line('a', 'm'), line('b', 'unknown')].join('\n')).begin(
    'batch_a',
  );
  expect(status).toBe('in_progress');
  expect(unserved).toEqual([{ model: 'unknown', ...UNSERVED }]);
});
