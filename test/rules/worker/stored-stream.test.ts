import { expect, test } from 'vitest';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const EVENTS = 'text/event-stream; charset=utf-8';
const DONE = 'data: [DONE]\n\n';

async function streaming(): Promise<WorkerBench> {
  const bench = await new WorkerBench({ capacity: 4 }).ready();
  await bench.push({ ...STREAM_JOB, mode: 'persisted' });
  return bench;
}

const stored = (body: unknown, content_type = EVENTS) => [
  { job_id: 'j1', result: { status: 'success', response: { status: 200, content_type, body } } },
];

test('the answer goes to the relay as it comes and is kept whole as the result', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS).write('data: 1\n\n');
  await bench.clock.advance(0);
  expect(bench.relay.records[0]).toMatchObject({
    type: 'head',
    stream: 7,
    head: { status: 200, replayed: true },
  });
  expect(bench.relay.bytesOf(7)).toBe('data: 1\n\n');
  bench.engine.last.write(DONE).end();
  await bench.clock.advance(0);
  const whole = `data: 1\n\n${DONE}`;
  expect(bench.relay.bytesOf(7)).toBe(whole);
  expect(bench.relay.records.at(-1)).toEqual({ type: 'end', stream: 7, size: whole.length });
  expect(bench.results).toMatchObject(stored(whole));
  expect(bench.engine.exchanges).toHaveLength(1);
});

test('a relay that is gone changes nothing for the job, however long its answer is', async () => {
  const bench = await streaming();
  bench.relay.close();
  bench.engine.last.head(200, EVENTS);
  const event = `data: ${'x'.repeat(1024 * 1024)}\n\n`;
  for (let n = 0; n < 6; n++) {
    bench.engine.last.write(event);
    await bench.clock.advance(0);
  }
  bench.engine.last.write(DONE).end();
  await bench.clock.advance(0);
  expect(bench.results).toMatchObject(stored(event.repeat(6) + DONE));
});

test.each(['pause', 'cancel'] as const)(
  'a relay that says "%s" changes nothing for the job',
  async (type) => {
    const bench = await streaming();
    bench.engine.last.head(200, EVENTS).write('data: 1\n\n');
    await bench.clock.advance(0);
    bench.relay.pushRecords(
      type === 'cancel' ? { type, stream: 7, reason: 'caller_gone' } : { type, stream: 7 },
    );
    bench.engine.last.write(DONE).end();
    await bench.clock.advance(0);
    expect(bench.engine.last.isAborted).toBe(false);
    expect(bench.results).toMatchObject(stored(`data: 1\n\n${DONE}`));
    expect(bench.errors).toEqual([]);
  },
);

test('a generation that the engine gave up is cut off on the replay buffer and fails the attempt', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS).write('data: 1\n\n');
  await bench.clock.advance(0);
  bench.engine.last.write('data: {"choices":[{"finish_reason":"abort"}]}\n\n').write(DONE).end();
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(7)).toBe('data: 1\n\n');
  expect(bench.relay.records.at(-1)).toMatchObject({ type: 'broken', stream: 7 });
  expect(bench.errors).toMatchObject([{ job_id: 'j1', retryable: true }]);
  expect(bench.results).toEqual([]);
});

test('an answer that is no event stream goes to the relay when it is whole', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, 'application/json').write('{"a":');
  await bench.clock.advance(0);
  expect(bench.relay.records).toEqual([]);
  bench.engine.last.write('1}').end();
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(7)).toBe('{"a":1}');
  expect(bench.results).toMatchObject(stored({ a: 1 }, 'application/json'));
});

test('a job without a free slot is released, stored as it is', async () => {
  const bench = await new WorkerBench({ capacity: 1 }).ready();
  await bench.push({ job_id: 'a' });
  await bench.push({ ...STREAM_JOB, job_id: 'b', fence_token: 2, mode: 'persisted' });
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'b', reason: 'overloaded' }]);
});

test.each([[7], [undefined]])(
  'a stream that breaks off tells what it has used (stream %s)',
  async (stream_id) => {
    const bench = await new WorkerBench().ready();
    await bench.push({ ...STREAM_JOB, mode: 'persisted', stream_id });
    bench.engine.last.head(200, EVENTS).write('data: 0\n\n').write('data: 1\n\n').write('data: 2\n\n').die();
    await bench.clock.advance(0);
    expect(bench.errors).toMatchObject([
      { code: 'engine_died', usage: { prompt_tokens: 0, completion_tokens: 2, estimated: true } },
    ]);
  },
);
