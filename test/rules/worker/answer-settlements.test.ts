import { expect, test } from 'vitest';
import { FEATURES } from '../../../src/protocol/index.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const EVENTS = 'text/event-stream; charset=utf-8';
const JOB = { ...STREAM_JOB, job_id: 'streamed' };
const LAST = 'data: [DONE]\n\n';

/** Registered anew with a queue that grants everything, where a stream and its settlement are one message. */
async function streaming(): Promise<WorkerBench> {
  const bench = await new WorkerBench({ capacity: 4 }).ready();
  await bench.reconnect({ features: FEATURES, answers_url: 'answers?worker_id=w&session_id=2' });
  bench.relay.open();
  await bench.push(JOB);
  return bench;
}

async function finish(bench: WorkerBench): Promise<void> {
  bench.engine.last.head(200, EVENTS).write(LAST).end();
  await bench.clock.advance(0);
}

function settledOnAnswers(bench: WorkerBench): string[] {
  const texts = bench.relay.records.filter((record) => record.type === 'settlements');
  return texts.map(({ text }) => JSON.parse(text).job_id);
}

test('a settlement goes in the message that ends its answer, and is kept until it is acknowledged', async () => {
  const bench = await streaming();
  await finish(bench);
  expect(bench.relay.records.map(({ type }) => type)).toEqual(['head', 'bytes', 'end', 'settlements']);
  expect(bench.relay.messages).toHaveLength(1);
  expect(settledOnAnswers(bench)).toEqual([JOB.job_id]);
  expect(bench.results).toEqual([]);
  expect(bench.worker.unacknowledged).toBe(1);
  bench.queue.push({ type: 'ack', job_id: JOB.job_id, fence_token: 1, outcome: 'accepted' });
  expect(bench.worker.unacknowledged).toBe(0);
});

test('what an answer socket may have swallowed is said again on the control socket', async () => {
  const bench = await streaming();
  await finish(bench);
  bench.relay.close();
  await bench.clock.advance(0);
  expect(bench.results).toMatchObject([{ job_id: JOB.job_id }]);
  // Nothing settled on the next one: its end repeats nothing.
  await bench.clock.advance(1000);
  bench.relay.open();
  bench.relay.close();
  await bench.clock.advance(0);
  expect(bench.results).toHaveLength(1);
});

test('a new control connection hears what went on the answer socket of the one before', async () => {
  const bench = await streaming();
  await finish(bench);
  await bench.reconnect({ features: FEATURES, answers_url: 'answers?worker_id=w&session_id=3' });
  await bench.clock.advance(0);
  expect(bench.queue.framesOf('register')).toMatchObject([{ jobs: [{ job_id: JOB.job_id }] }]);
  expect(bench.queue.texts.some((text) => text.includes('job_result'))).toBe(true);
});

test('without a control connection nothing is settled on the answer socket', async () => {
  const bench = await streaming();
  bench.queue.close();
  await finish(bench);
  expect(bench.relay.bytesOf(7)).toBe(LAST);
  expect(settledOnAnswers(bench)).toEqual([]);
});

test('the settlement of a stored job stays on the control socket', async () => {
  const bench = await streaming();
  await bench.push({ ...STREAM_JOB, job_id: 'stored', mode: 'persisted', stream_id: 8, fence_token: 2 });
  for (const exchange of bench.engine.exchanges) exchange.head(200, EVENTS).write(LAST).end();
  await bench.clock.advance(0);
  expect(settledOnAnswers(bench)).not.toContain('stored');
  expect(bench.queue.texts.some((text) => text.includes('"job_id":"stored"'))).toBe(true);
});
