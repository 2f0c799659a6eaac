import { describe, expect, it } from 'vitest';
import { Feeder, Pace } from '../../../src/batches/feeder.ts';

import type { BatchPorts, BatchQueue, LineJob, SubmittedLine } from '../../../src/batches/ports.ts';
import { lineCounts } from '../../../src/batches/store.ts';
import { batchTables, HOUR_MS, NOW, runningBatch } from '../../support/batch-harness.ts';

const LINE = JSON.stringify({ custom_id: 'a', url: '/v1/chat/completions', body: { model: 'm' } });

/** A feeder over the tables, and a queue that answers as the test says. */
function fed(answer: (job: LineJob) => SubmittedLine = () => 'submitted') {
  const sql = batchTables();
  const state = { now: NOW, slots: 1, file: new TextEncoder().encode(LINE), unreadable: '' };
  const submitted: LineJob[] = [];
  const calls: number[] = [];
  const reads: string[] = [];
  const appended: { file: string; text: string }[] = [];
  const queue: Partial<BatchQueue> = {
    slots: async (models) => {
      return models.map((model) =>
        model?.startsWith('nobody')
          ? { config_id: null, slots: 0 }
          : { config_id: 'cfg', slots: state.slots },
      );
    },
    submit: async (jobs) => {
      submitted.push(...jobs);
      calls.push(jobs.length);
      return jobs.map(answer);
    },
  };
  const files: Partial<BatchPorts['files']> = {
    readLines: async (file, lines) => {
      reads.push(file);
      if (file === state.unreadable) throw new Error('the bucket does not answer');
      return lines.map(({ offset, length }) => state.file.subarray(offset, offset + length));
    },
    append: async (file, lines) => {
      for (const { bytes } of lines) appended.push({ file, text: new TextDecoder().decode(bytes) });
      return 0;
    },
  };
  const ports = { sql, queue, files, now: () => state.now, log: () => {} } as unknown as BatchPorts;
  const feeder = new Feeder(ports, new Pace(), { window: { least: 64, slots: 4 }, mostAtOnce: 256 });
  const batch = (id: string, models: string[], more: object = {}) =>
    runningBatch(sql, id, models, { ...more }, state.file.byteLength);
  return { sql, state, submitted, calls, reads, appended, feeder, batch };
}

describe('lines on their way to the queue', () => {
  it('keep a window of their pool full, whatever batches and models they are of', async () => {
    const { sql, state, submitted, feeder, batch } = fed();
    const late = batch('batch_late', Array(200).fill('m'));
    const soon = batch('batch_soon', Array(40).fill('n'), { expires_at: NOW + HOUR_MS });
    await feeder.feed([late, soon]);
    expect(submitted.filter(({ id }) => id.startsWith('batch_soon'))).toHaveLength(40);
    expect(submitted).toHaveLength(64);
    await feeder.feed([late, soon]);
    expect(submitted).toHaveLength(64);
    state.slots = 20;
    await feeder.feed([late, soon]);
    expect(submitted).toHaveLength(80);
    expect(lineCounts(sql)).toMatchObject([
      { waiting: 160, submitted: 40 },
      { waiting: 0, submitted: 40 },
    ]);
  });

  it('of one batch wait while its file cannot be read, and those of others do not', async () => {
    const { state, submitted, feeder, batch } = fed();
    const stuck = batch('batch_stuck', ['m', 'm'], { expires_at: NOW + HOUR_MS });
    const other = batch('batch_other', ['m']);
    state.unreadable = 'file-batch_stuck';
    await feeder.feed([stuck, other]);
    expect(submitted.map(({ id }) => id)).toEqual(['batch_other.1']);
    state.unreadable = '';
    await feeder.feed([stuck, other]);
    expect(submitted).toHaveLength(1);
    state.now += 2000;
    await feeder.feed([stuck, other]);
    expect(submitted).toHaveLength(3);
  });

  it('wait where the queue takes none, and then ask with one alone', async () => {
    const { sql, state, submitted, feeder, batch } = fed(() => ({ wait: 'full' }));
    const stored = batch('batch_a', Array(100).fill('nobody'));
    await feeder.feed([stored]);
    expect(lineCounts(sql)).toMatchObject([{ waiting: 100, submitted: 0 }]);
    const first = submitted.length;
    await feeder.feed([stored]);
    expect(submitted).toHaveLength(first);
    state.now += 10_000;
    await feeder.feed([stored]);
    expect(submitted).toHaveLength(first + 1);
  });

  it('are submitted together though each names another model that nobody serves', async () => {
    const { calls, feeder, batch } = fed(() => ({ wait: 'no worker' }));
    const models = Array.from({ length: 1000 }, (_, n) => `nobody-${n}`);
    await feeder.feed([batch('batch_a', models)]);
    expect(calls).toEqual([256, 256, 256, 232]);
  });

  it('are read by one call a file', async () => {
    const { submitted, reads, feeder, batch } = fed();
    await feeder.feed([batch('batch_a', ['m', 'n', 'm']), batch('batch_b', ['m'])]);
    expect(submitted).toHaveLength(4);
    expect(submitted[0]).toMatchObject({ path: '/v1/chat/completions', body: '{"model":"m"}', model: 'm' });
    expect(reads.sort()).toEqual(['file-batch_a', 'file-batch_b']);
  });

  it.each([
    ['can be read no more', ''],
    ['are nested too deeply', LINE.replace('"m"', `"m","x":${'['.repeat(100_000)}${']'.repeat(100_000)}`)],
  ])('are errors where they %s', async (_, text) => {
    const { sql, state, submitted, appended, feeder, batch } = fed();
    state.file = new TextEncoder().encode(text || LINE);
    const stored = batch('batch_a', ['m']);
    if (text === '') state.file = new Uint8Array();
    await feeder.feed([stored]);
    expect(submitted).toEqual([]);
    expect(appended).toMatchObject([{ file: 'file-batch_a-error' }]);
    expect(lineCounts(sql)).toEqual([]);
  });
});
