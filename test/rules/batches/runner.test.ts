import { expect, it } from 'vitest';
import { isOver } from '../../../src/batches/batch.ts';
import { cancelBatch } from '../../../src/batches/batches.ts';
import type { BatchPorts } from '../../../src/batches/ports.ts';
import { BatchRunner } from '../../../src/batches/runner.ts';
import { findBatch, saveBatch } from '../../../src/batches/store.ts';
import type { Sql } from '../../../src/durable/ports.ts';
import type { Env } from '../../../src/gateway/env.ts';
import { batchQueue } from '../../../src/gateway/objects/batches.ts';
import { inferenceRoutes, type JobRef } from '../../../src/protocol/index.ts';
import { batchCalls, batchTables, HOUR_MS, NOW, runningBatch } from '../../support/batch-harness.ts';
import { playedObjects } from '../../support/objects.ts';
import { until } from '../../support/poll.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const LINE = new TextEncoder().encode(
  JSON.stringify({
    custom_id: 'x',
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'tiny', messages: [] },
  }),
);

/** Runs the batches of these tables. @param append adds lines to a file */
function runnerOf(harness: QueueHarness, sql: Sql, now: number, append: BatchPorts['files']['append']) {
  const env: Env = { objects: playedObjects({ queue: () => batchCalls(harness) }) };
  const clock = { now };
  const runner = new BatchRunner(
    {
      sql,
      now: () => clock.now,
      sleep: () => new Promise((done) => setTimeout(done, 1)),
      queue: batchQueue(env, 'q'),
      routes: inferenceRoutes(),
      ended: () => {},
      files: {
        size: async () => 0,
        read: async () => new Uint8Array(),
        readLines: async (_, lines) => lines.map(() => LINE),
        append,
        keep: async () => {},
      },
      background: () => {},
      log: () => {},
    },
    { window: { least: 2, slots: 1 }, mostAtOnce: 2 },
  );
  runner.wake();
  return clock;
}

it('writes every line though the queue’s object starts again between two of its calls', async () => {
  const harness = new QueueHarness();
  let worker = harness.worker('w', { capacity: 3 });
  const sql = batchTables();
  runningBatch(sql, 'batch_1', ['tiny', 'tiny', 'tiny'], {}, LINE.byteLength);
  const written = new Set<number>();
  const running: Pick<JobRef, 'job_id' | 'fence_token'>[] = [];
  /** One that settles is told at once. */
  const settle = (count: number) => {
    for (const { job_id, fence_token } of running.splice(0, count)) {
      const result = { response: { status: 200, body: {} } };
      harness.say(worker, { type: 'job_result', job_id, fence_token, result });
    }
    harness.queue.answerListeners();
  };
  const given = () =>
    running.push(...(worker.sent.splice(0).filter(({ type }) => type === 'job') as never[]));
  runnerOf(harness, sql, NOW, async (_, lines) => {
    for (const { key } of lines) written.add(key);
    if (written.size > 1) return 0;
    // One runs, another is submitted before the object of batches asks again what has settled.
    harness.restart();
    worker = harness.worker('w', { capacity: 3, jobs: running });
    return 0;
  });
  await until(() => given() === 2, 'two lines to run');
  settle(1);
  await until(() => given() === 2, 'the third to run');
  settle(2);
  await until(() => written.size === 3, 'all lines to be written');
});

// A cancellation comes too late, and would count them under another name.
it.each([
  ['was called back', 1],
  ['had not begun', 3],
])(
  'counts a line of an expired batch that %s as its file has it, when the clock goes back',
  async (_, count) => {
    const harness = new QueueHarness();
    const worker = harness.worker('w', { capacity: 3 });
    const sql = batchTables();
    const stored = runningBatch(sql, 'batch_1', Array(count).fill('tiny'), {}, LINE.byteLength);
    stored.batch.in_progress_at = NOW;
    saveBatch(sql, stored);
    /** By file: lines by their number; one that is there is not added again. */
    const files = new Map<string, Map<number, string>>();
    const write: BatchPorts['files']['append'] = async (id, lines) => {
      const file = files.get(id) ?? new Map<number, string>();
      files.set(id, file);
      for (const { key, bytes } of lines) if (!file.has(key)) file.set(key, new TextDecoder().decode(bytes));
      return file.size;
    };
    const clock = runnerOf(harness, sql, NOW, async (id, lines) => {
      await write(id, lines);
      // The object ends here.
      return await new Promise<never>(() => {});
    });
    await until(() => worker.frames('job').length === Math.min(count, 2), 'lines to run');
    clock.now = stored.batch.expires_at;
    const listen = () => {
      harness.advance(1);
      harness.queue.answerListeners();
    };
    await until(() => {
      listen();
      return files.size > 0;
    }, 'the first line to be written');
    const back = stored.batch.expires_at - HOUR_MS;
    cancelBatch({ sql, now: () => back }, 'batch_1', null);
    runnerOf(harness, sql, back, write);
    const ended = await until(() => {
      listen();
      const { batch } = findBatch(sql, 'batch_1', null)!;
      return isOver(batch.status) && batch;
    }, 'the batch to end');
    const lines = [...files.get(stored.batch.error_file_id)!.values()];
    expect(lines.map((line) => JSON.parse(line).error.code)).toEqual(Array(count).fill('batch_expired'));
    expect(ended).toMatchObject({
      status: 'expired',
      completed: 0,
      failed: 0,
      output_lines: 0,
      error_lines: count,
      error_counts: { batch_expired: count },
    });
  },
);
