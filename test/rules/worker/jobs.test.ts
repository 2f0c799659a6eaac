import { expect, test } from 'vitest';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

test('jobs run side by side up to the capacity, and settle in the order they finish', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push({ job_id: 'a' });
  await bench.push({ job_id: 'b', fence_token: 2 });
  const [a, b] = bench.engine.exchanges;
  b!.complete();
  await settled();
  a!.complete();
  await settled();
  expect(bench.results.map(({ job_id, fence_token }) => [job_id, fence_token])).toEqual([
    ['b', 2],
    ['a', 1],
  ]);
});

test('a job reaches the engine in the turn in which its frame arrives', async () => {
  const bench = await new WorkerBench().ready();
  void bench.push(STREAM_JOB);
  expect(bench.engine.exchanges).toHaveLength(1);
});

test('a job without a free slot is released, and its caller told', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({ job_id: 'a' });
  await bench.push({ ...STREAM_JOB, job_id: 'b', fence_token: 2 });
  await bench.clock.advance(0);
  expect(bench.queue.framesOf('job_release')).toEqual([
    { type: 'job_release', job_id: 'b', fence_token: 2, reason: 'overloaded' },
  ]);
  expect(bench.relay.records).toMatchObject([
    { type: 'broken', stream: 7, reason: { code: 'overloaded', retryable: true } },
  ]);
  expect(bench.engine.exchanges).toHaveLength(1);
});

test('a base queue is told of a job without a slot by an error', async () => {
  const bench = await new WorkerBench().readyWithBase();
  await bench.push({ job_id: 'a' });
  await bench.push({ job_id: 'b', fence_token: 2 });
  expect(bench.errors).toEqual([
    {
      type: 'job_error',
      job_id: 'b',
      fence_token: 2,
      error: 'the worker released the job: overloaded',
    },
  ]);
});

test('a newer fence supersedes the attempt that runs; nothing of the old one is sent', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({ fence_token: 1 });
  await bench.push({ fence_token: 5 });
  const [old, young] = bench.engine.exchanges;
  expect([old!.isAborted, young!.isAborted]).toEqual([true, false]);
  young!.complete();
  await settled();
  expect(bench.results.map(({ fence_token }) => fence_token)).toEqual([5]);
  expect(bench.errors).toEqual([]);
});

test('a repeated push of a running attempt is run once', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push();
  await bench.push();
  expect(bench.engine.exchanges).toHaveLength(1);
});

test('a repeated push of a finished attempt is answered with its result again', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.engine.last.complete();
  await settled();
  await bench.push();
  expect(bench.engine.exchanges).toHaveLength(1);
  expect(bench.results).toHaveLength(2);
});

test.each([
  ['caller_gone', 'cancelled'],
  ['cancelled', 'cancelled'],
  ['deadline', 'deadline'],
])('a job that is over is aborted at once, and the queue is told what it used: %s', async (reason, code) => {
  const bench = await new WorkerBench().ready();
  await bench.push(STREAM_JOB);
  bench.engine.last.head(200, 'text/event-stream').write('data: {"choices":[]}\n\ndata: {"choices":[]}\n\n');
  await bench.clock.advance(0);
  const sent = bench.relay.records.length;
  bench.queue.push({ type: 'job_revoked', job_id: 'j1', reason });
  expect(bench.engine.last.isAborted).toBe(true);
  await bench.clock.advance(0);
  expect(bench.queue.framesOf('job_error')).toMatchObject([
    {
      job_id: 'j1',
      fence_token: 1,
      code,
      retryable: false,
      usage: { completion_tokens: 1, estimated: true },
    },
  ]);
  expect(bench.relay.records).toHaveLength(sent);
  expect(bench.worker.running).toBe(0);
  // A queue that restarts before it has the report says again that the job is over.
  await bench.reconnect({ revoked: [{ job_id: 'j1', reason }] });
  expect(bench.queue.framesOf('job_error')).toMatchObject([{ job_id: 'j1', code }]);
  bench.queue.push({ type: 'ack', job_id: 'j1', fence_token: 1, outcome: 'accepted' });
  expect(bench.worker.unacknowledged).toBe(0);
});

test('of a revoked job that another worker has nothing is sent', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push(STREAM_JOB);
  bench.engine.last.head(200, 'text/event-stream').write('data: 1\n\n');
  await bench.clock.advance(0);
  bench.queue.push({ type: 'job_revoked', job_id: 'j1', reason: 'superseded' });
  expect(bench.engine.last.isAborted).toBe(true);
  await bench.clock.advance(0);
  expect(bench.queue.framesOf('job_error')).toEqual([]);
});

test('a result waits for its acknowledgement and is sent again after every reconnect', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.engine.last.complete();
  await settled();
  expect(bench.results).toHaveLength(1);
  await bench.reconnect({ resumed: ['j1'] });
  expect(bench.queue.framesOf('register')[0]?.jobs).toEqual([{ job_id: 'j1', fence_token: 1 }]);
  expect(bench.results).toHaveLength(1);
  bench.queue.push({ type: 'ack', job_id: 'j1', fence_token: 1, outcome: 'accepted' });
  expect(bench.worker.unacknowledged).toBe(0);
  await bench.reconnect();
  expect(bench.results).toEqual([]);
});

test('a result that is ready while the socket is down is sent when it is back', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.queue.close();
  bench.engine.last.complete();
  await bench.clock.advance(1000);
  bench.queue.open();
  bench.queue.grant({ resumed: ['j1'] });
  await settled();
  expect(bench.results).toHaveLength(1);
});

test('an acknowledgement of an older attempt leaves the newer result in the outbox', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({ fence_token: 4 });
  bench.engine.last.complete();
  await settled();
  bench.queue.push({ type: 'ack', job_id: 'j1', fence_token: 3, outcome: 'stale' });
  expect(bench.worker.unacknowledged).toBe(1);
});

test('what the queue revokes at a reconnect is aborted, running or finished', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push({ job_id: 'done' });
  bench.engine.last.complete();
  await settled();
  await bench.push({ job_id: 'runs', fence_token: 2 });
  const reason = 'superseded';
  await bench.reconnect({
    revoked: [
      { job_id: 'done', reason },
      { job_id: 'runs', reason },
    ],
  });
  expect(bench.engine.last.isAborted).toBe(true);
  expect([bench.worker.running, bench.worker.unacknowledged]).toEqual([0, 0]);
  expect(bench.queue.frames.map(({ type }) => type)).not.toContain('job_result');
});

test('one frame renews all leases, until their settlements are acknowledged', async () => {
  const bench = await new WorkerBench({ capacity: 3, renewAfterSeconds: 10 }).ready();
  await bench.push({ job_id: 'a' });
  await bench.push({ job_id: 'b', fence_token: 2 });
  bench.engine.exchanges[0]!.complete();
  await bench.clock.advance(10_000);
  const jobs = [
    { job_id: 'b', fence_token: 2 },
    { job_id: 'a', fence_token: 1 },
  ];
  expect(bench.queue.framesOf('renew')).toEqual([{ type: 'renew', jobs }]);
  bench.queue.push({ type: 'ack', job_id: 'a', fence_token: 1, outcome: 'accepted' });
  await bench.clock.advance(10_000);
  expect(bench.queue.framesOf('renew')[1]?.jobs).toEqual([{ job_id: 'b', fence_token: 2 }]);
});

test('the queue may ask for faster renewal than configured', async () => {
  const bench = new WorkerBench({ renewAfterSeconds: 24 });
  bench.worker.start();
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  bench.queue.grant({ renew_after_seconds: 3 });
  await bench.push();
  await bench.clock.advance(3000);
  expect(bench.queue.framesOf('renew')).toHaveLength(1);
});

test('a reconnect that brings a shorter lease renews it in time', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  await bench.reconnect({ resumed: ['j1'], lease_seconds: 10, renew_after_seconds: 8 });
  await bench.clock.advance(7999);
  expect(bench.queue.framesOf('renew')).toEqual([]);
  await bench.clock.advance(1);
  expect(bench.queue.framesOf('renew')).toEqual([
    { type: 'renew', jobs: [{ job_id: 'j1', fence_token: 1 }] },
  ]);
});

test('with a base queue each persisted job is renewed by its progress', async () => {
  const bench = await new WorkerBench({ capacity: 2, renewAfterSeconds: 10 }).readyWithBase();
  await bench.push({ job_id: 'kept' });
  await bench.push({ job_id: 'waited', mode: 'transient', fence_token: 2 });
  await bench.clock.advance(10_000);
  expect(bench.queue.framesOf('job_progress')).toEqual([
    { type: 'job_progress', job_id: 'kept', fence_token: 1, status_message: 'processing' },
  ]);
});

test('a lost lease aborts its job, and nothing of it is sent', async () => {
  const bench = await new WorkerBench({ renewAfterSeconds: 10 }).ready();
  await bench.push();
  await bench.clock.advance(10_000);
  bench.queue.push({ type: 'renewed', lease_seconds: 30, lost: [{ job_id: 'j1', fence_token: 1 }] });
  await settled();
  expect(bench.engine.last.isAborted).toBe(true);
  expect(bench.results.length + bench.errors.length).toBe(0);
});

test('a lease lost by an older attempt does not abort the newer one', async () => {
  const bench = await new WorkerBench({ renewAfterSeconds: 10 }).ready();
  await bench.push({ fence_token: 1 });
  await bench.clock.advance(10_000);
  await bench.push({ fence_token: 2 });
  // The queue reads the first only after it has given the job out again.
  await bench.clock.advance(10_000);
  bench.queue.push({ type: 'renewed', lease_seconds: 30, lost: [{ job_id: 'j1', fence_token: 1 }] });
  expect(bench.engine.last.isAborted).toBe(false);
  expect(bench.worker.running).toBe(1);
});

test('a job runs on while the socket is down for longer than its lease', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.queue.close();
  await bench.clock.advance(300_000);
  expect(bench.engine.last.isAborted).toBe(false);
});

test('a job is aborted when its deadline passes', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({ deadline_ms: 5000 });
  await bench.clock.advance(5000);
  expect(bench.engine.last.isAborted).toBe(true);
  expect(bench.errors).toMatchObject([
    { code: 'deadline', retryable: false, error: 'the deadline of the job passed: it ran 5.0 s' },
  ]);
});

test('nothing is armed for a job once it is acknowledged', async () => {
  const bench = await new WorkerBench().ready();
  const armed = bench.clock.armed;
  await bench.push({ deadline_ms: 60_000 });
  bench.engine.last.complete();
  await settled();
  bench.queue.push({ type: 'ack', job_id: 'j1', fence_token: 1, outcome: 'accepted' });
  expect(bench.clock.armed).toBe(armed);
});
