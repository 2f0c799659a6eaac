import { it } from 'vitest';
import { BatchRunner } from '../../../src/batches/runner.ts';
import { batchQueue } from '../../../src/gateway/batches/queue.ts';
import type { Env } from '../../../src/gateway/env.ts';
import { inferenceRoutes, type JobRef } from '../../../src/protocol/index.ts';
import type { QueueCalls, SubmitJob } from '../../../src/queue/rpc.ts';
import { batchTables, NOW, runningBatch } from '../../support/batch-harness.ts';
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

/** What the gateway's part of batches asks of a queue. */
function callsOf(harness: QueueHarness): Partial<QueueCalls> {
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
  };
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
  const env = { QUEUE: { getByName: () => callsOf(harness) } } as unknown as Env;
  const runner = new BatchRunner(
    {
      sql,
      now: () => NOW,
      machineTime: () => NOW,
      startAgain: () => {},
      sleep: () => new Promise((done) => setTimeout(done, 1)),
      queue: batchQueue(env, 'q'),
      routes: inferenceRoutes(),
      files: {
        size: async () => 0,
        read: async () => new Uint8Array(),
        readLines: async (_, lines) => lines.map(() => LINE),
        append: async (_, lines) => {
          for (const { key } of lines) written.add(key);
          if (written.size > 1) return 0;
          // One runs, another is submitted before the object of batches asks again what has settled.
          harness.restart();
          worker = harness.worker('w', { capacity: 3, jobs: running });
          return 0;
        },
        keep: async () => {},
      },
      log: () => {},
    },
    { window: { least: 2, slots: 1 }, mostAtOnce: 2 },
  );
  runner.wake();
  await until(() => given() === 2, 'two lines to run');
  settle(1);
  await until(() => given() === 2, 'the third to run');
  settle(2);
  await until(() => written.size === 3, 'all lines to be written');
});
