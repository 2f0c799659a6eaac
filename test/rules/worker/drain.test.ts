import { expect, test } from 'vitest';
import { EXIT } from '../../../src/process/exit-codes.ts';
import { endOfStep } from '../../../src/process/way-down.ts';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const EVENTS = 'text/event-stream; charset=utf-8';
const EVENT = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';

async function acknowledge(bench: WorkerBench, jobId = 'j1', fence = 1): Promise<void> {
  bench.queue.push({ type: 'ack', job_id: jobId, fence_token: fence, outcome: 'accepted' });
  await settled();
}

test('an idle worker drains at once and leaves nothing armed', async () => {
  const bench = await new WorkerBench().ready();
  bench.worker.drain();
  await settled();
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.queue.framesOf('drain')).toHaveLength(1);
  expect(bench.queue.closedBy).toMatchObject({ code: 1000 });
  expect(bench.relay.closedBy).toMatchObject({ code: 1000 });
  expect(bench.beats.map(({ status }) => status).at(-1)).toBe('stopping');
  expect(bench.clock.armed).toBe(0);
});

test('a worker that never registered drains at once too', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  bench.worker.drain();
  await settled();
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.clock.armed).toBe(0);
});

test('a job that fits the grace finishes, and the worker ends when it is acknowledged', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.worker.drain();
  await bench.clock.advance(4000);
  bench.engine.last.complete();
  await settled();
  expect(bench.results).toHaveLength(1);
  expect(bench.exitCode).toBeNull();
  await acknowledge(bench);
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.queue.framesOf('job_release')).toEqual([]);
});

test('a signal after a notice that left more time ends a worker whose result nobody acknowledges', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.worker.drain(110, true);
  bench.engine.last.complete();
  await settled();
  expect(bench.results).toHaveLength(1);
  bench.worker.drain(5);
  await bench.clock.advance(endOfStep('goodbye', 5000));
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.clock.armed).toBe(0);
});

test('an API that never answers heartbeats does not hold up the end beyond both clocks', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.post = () => new Promise(() => {});
  bench.worker.drain();
  await bench.clock.advance(4000);
  bench.engine.last.complete();
  await bench.clock.advance(endOfStep('goodbye', 5000) - 4000 - 1);
  expect(bench.exitCode).toBeNull();
  await bench.clock.advance(1);
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.clock.armed).toBe(0);
});

test('a job that does not fit the grace is aborted and released', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push(STREAM_JOB);
  bench.worker.drain();
  await bench.clock.advance(4999);
  expect(bench.engine.last.isAborted).toBe(false);
  await bench.clock.advance(1);
  expect(bench.engine.last.isAborted).toBe(true);
  expect(bench.queue.framesOf('job_release')).toEqual([
    { type: 'job_release', job_id: 'j1', fence_token: 1, reason: 'draining', timing: { started_ms: 0 } },
  ]);
  expect(bench.relay.records).toMatchObject([
    { type: 'broken', reason: { code: 'draining', retryable: true } },
  ]);
  expect(bench.exitCode).toBe(EXIT.ok);
});

test('what has not reached the engine is released at once', async () => {
  const bench = await new WorkerBench().ready();
  bench.fetch = () => new Promise(() => {});
  await bench.push({ payload: null, payload_url: 'https://files/payload' });
  bench.worker.drain();
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ reason: 'not_started' }]);
  await settled();
  expect(bench.exitCode).toBe(EXIT.ok);
});

test('a job pushed while draining is released', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push();
  bench.worker.drain();
  await bench.push({ job_id: 'late', fence_token: 2 });
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'late', reason: 'draining' }]);
  expect(bench.engine.exchanges).toHaveLength(1);
});

test('a job released while the queue is away is told to it, in what the two clocks leave', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push();
  bench.fetch = () => new Promise(() => {});
  await bench.push({ job_id: 'unstarted', fence_token: 2, payload: null, payload_url: 'https://files/p' });
  bench.queue.close(1012);
  bench.worker.drain();
  await bench.clock.advance(0);
  bench.queue.open();
  await bench.clock.advance(5000);
  expect(bench.exitCode).toBeNull();
  bench.queue.grant({ resumed: ['j1'] });
  await settled();
  expect(bench.queue.framesOf('register')).toMatchObject([{ capacity: 0, jobs: [{ job_id: 'j1' }] }]);
  expect(bench.queue.framesOf('job_release')).toMatchObject([
    { job_id: 'unstarted', reason: 'not_started' },
    { job_id: 'j1', fence_token: 1, reason: 'draining' },
  ]);
  expect(bench.exitCode).toBe(EXIT.ok);
});

test('a queue that stays away does not hold up a drain beyond both clocks', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.queue.close();
  bench.worker.drain();
  await bench.clock.advance(endOfStep('acknowledgements', 5000) - 1);
  expect(bench.exitCode).toBeNull();
  await bench.clock.advance(1);
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.clock.armed).toBe(0);
});

test('with a base queue a drained job is left to its lease, a waiting caller is told', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).readyWithBase();
  await bench.push({ job_id: 'kept' });
  await bench.push({ job_id: 'waited', mode: 'transient' });
  bench.worker.drain(1);
  await bench.clock.advance(1000);
  expect(bench.errors).toMatchObject([{ job_id: 'waited', error: expect.stringContaining('draining') }]);
  expect(bench.exitCode).toBe(EXIT.ok);
});

test('a result nobody acknowledges holds the worker for grace and force, no longer', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.engine.last.complete();
  await settled();
  bench.worker.drain();
  await bench.clock.advance(endOfStep('acknowledgements', 5000) - 1);
  expect(bench.exitCode).toBeNull();
  await bench.clock.advance(1);
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.logged).toContain('ending with results nobody acknowledged');
});

test('a result is sent over a new connection when the old one breaks during the drain', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.worker.drain();
  bench.queue.close();
  bench.engine.last.complete();
  await bench.clock.advance(1000);
  bench.queue.open();
  expect(bench.queue.framesOf('register')).toMatchObject([{ capacity: 0, jobs: [{ job_id: 'j1' }] }]);
  bench.queue.grant({ resumed: ['j1'] });
  await settled();
  expect(bench.results).toHaveLength(1);
  expect(bench.queue.framesOf('drain')).toHaveLength(1);
  await acknowledge(bench);
  expect(bench.exitCode).toBe(EXIT.ok);
});

test('the worker stays until the relay has the end of an answer', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push(STREAM_JOB);
  bench.worker.drain();
  bench.engine.last.head(200, 'text/event-stream').write('data: [DONE]\n\n').end();
  await bench.clock.advance(0);
  await acknowledge(bench);
  expect(bench.exitCode).toBeNull();
  bench.relay.pushRecords({ type: 'taken', stream: 7, offset: 14 });
  await settled();
  expect(bench.exitCode).toBe(EXIT.ok);
});

test('a second signal ends the worker at once, its jobs released', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.worker.drain();
  bench.worker.force();
  await settled();
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'j1', reason: 'draining' }]);
  expect(bench.exitCode).toBe(EXIT.forced);
  expect(bench.clock.armed).toBe(0);
});

test('losing the supervisor cuts a grace short', async () => {
  const bench = await new WorkerBench({ graceSeconds: 600 }).ready();
  await bench.push();
  bench.worker.drain();
  bench.worker.drain(0);
  await settled();
  expect(bench.queue.framesOf('job_release')).toHaveLength(1);
  expect(bench.exitCode).toBe(EXIT.ok);
});

test('a dead engine fails its jobs for another attempt, is reported, and ends the worker', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push();
  await bench.push({ ...STREAM_JOB, job_id: 'j2', fence_token: 2 });
  bench.worker.engineFailed('vllm died: killed', true);
  expect(bench.errors).toMatchObject([
    { job_id: 'j1', code: 'engine_died', retryable: true },
    { job_id: 'j2', code: 'engine_died', retryable: true },
  ]);
  await bench.clock.advance(0);
  expect(bench.relay.records).toMatchObject([{ type: 'broken', reason: { code: 'engine_died' } }]);
  await acknowledge(bench, 'j1', 1);
  await acknowledge(bench, 'j2', 2);
  expect(bench.exitCode).toBe(EXIT.engineDied);
  expect(bench.beats.at(-1)).toMatchObject({ status: 'error', error_message: 'vllm died: killed' });
});

test('an engine that never came up is reported as failed', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  bench.worker.engineFailed('no GPU was found', false);
  await settled();
  expect(bench.exitCode).toBe(EXIT.engineFailedToStart);
  expect(bench.beats.at(-1)).toMatchObject({ status: 'failed', error_message: 'no GPU was found' });
});

const STOPPED = { job_id: 'j1', reason: 'cancelled' };

test.each([
  ['the queue takes away', (bench: WorkerBench) => bench.queue.push({ type: 'job_revoked', ...STOPPED })],
  [
    'whose caller goes',
    (bench: WorkerBench) => bench.relay.pushRecords({ type: 'cancel', stream: 7, reason: 'caller_gone' }),
  ],
])('a drain that ends with a job %s still reports what the job used', async (_, stop) => {
  const bench = await new WorkerBench().ready();
  await bench.push(STREAM_JOB);
  bench.engine.last.head(200, EVENTS).write(EVENT.repeat(3));
  await bench.clock.advance(0);
  bench.worker.drain();
  stop(bench);
  await settled();
  expect(bench.errors).toMatchObject([{ job_id: 'j1', code: 'cancelled', usage: { completion_tokens: 2 } }]);
  expect(bench.exitCode).toBeNull();
  await acknowledge(bench);
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.clock.armed).toBe(0);
});

test('a drain that ends with a stored job that nobody watches any more still sends its result', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({ ...STREAM_JOB, mode: 'persisted' });
  bench.engine.last.head(200, EVENTS).write(EVENT);
  await bench.clock.advance(0);
  bench.relay.pushRecords({ type: 'cancel', stream: 7, reason: 'superseded' });
  bench.worker.drain();
  bench.engine.last.write('data: [DONE]\n\n').end();
  await settled();
  expect(bench.results).toMatchObject([{ job_id: 'j1' }]);
  expect(bench.exitCode).toBeNull();
  await acknowledge(bench);
  expect(bench.exitCode).toBe(EXIT.ok);
});
