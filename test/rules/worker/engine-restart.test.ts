import { expect, test } from 'vitest';
import { EXIT } from '../../../src/process/index.ts';
import type { FakeExchange } from '../../support/fake-engine.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

test('an engine that is started again fails what it ran; new jobs go back until it is healthy', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push();
  bench.worker.engineRestarting('vllm died: killed');
  await settled();
  expect(bench.errors).toMatchObject([{ job_id: 'j1', code: 'engine_died', retryable: true }]);
  expect(bench.worker.state).toBe('paused');
  await bench.push({ job_id: 'j2', fence_token: 2 });
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'j2', reason: 'engine_restarting' }]);
  bench.worker.engineHealthy(['tiny']);
  expect(bench.worker.state).toBe('ready');
  await bench.push({ job_id: 'j3', fence_token: 3 });
  expect(bench.worker.running).toBe(1);
  expect(bench.exitCode).toBeNull();
});

test('while the engine is started again the heartbeat says so, with the cause and the phase', async () => {
  const bench = await new WorkerBench().ready();
  bench.worker.engineRestarting('vllm died: killed. Try this.', 'Try this.');
  await settled();
  expect(bench.beats.at(-1)).toMatchObject({
    status: 'starting',
    phase: 'restarting',
    error_message: 'vllm died: killed. Try this.',
    advice: 'Try this.',
  });
  bench.worker.enginePhase({ phase: 'loading', progress: 3 / 8, atMs: bench.clock.now() });
  await settled();
  expect(bench.beats.at(-1)).toMatchObject({ status: 'starting', phase: 'loading', progress: 3 / 8 });
  bench.worker.engineHealthy(['tiny']);
  await settled();
  expect(bench.beats.at(-1)).toMatchObject({ status: 'running' });
});

test('the last heartbeat is fatal for a bad host only, and the exit code tells the kind', async () => {
  const kinds = [
    ['bad_host', 'fatal', EXIT.badHost],
    ['bad_configuration', 'failed', EXIT.configuration],
    ['bad_model', 'failed', EXIT.badModel],
    ['out_of_memory', 'failed', EXIT.outOfMemory],
    ['transient', 'failed', EXIT.engineFailedToStart],
  ] as const;
  for (const [kind, status, exitCode] of kinds) {
    const bench = new WorkerBench();
    bench.worker.start();
    bench.worker.engineFailed('it did not start', false, kind);
    await settled();
    expect(bench.beats.at(-1)).toMatchObject({ status, error_message: 'it did not start' });
    expect(bench.exitCode).toBe(exitCode);
  }
});

const STORED_REQUEST = {
  job_type: 'engine_request',
  payload: { path: '/v1/chat/completions', body: '{"model":"tiny"}' },
};
/** Of what the queue is told, what matters here. */
const TOLD: string[] = ['pause', 'job_error', 'job_result'];

test.each([
  ['whose connection breaks', (asked: FakeExchange) => asked.head(200, 'application/json').die(), true],
  ['that is not reached', (asked: FakeExchange) => asked.refuse(), true],
  ['that ends the generation', (asked: FakeExchange) => asked.complete('half', 'abort'), true],
  ['that fails while it is not healthy', (asked: FakeExchange) => asked.json(500, {}), true],
  ['that finds fault with the request', (asked: FakeExchange) => asked.json(400, {}), false],
  ['that answers', (asked: FakeExchange) => asked.complete(), false],
])(
  'of an engine %s a worker wants to know whether it dies, before it takes more',
  async (_, end, isDoubted) => {
    for (const job of [{}, STORED_REQUEST]) {
      const bench = await new WorkerBench({ capacity: 2 }).ready();
      bench.engineDoubted = (message) => bench.worker.engineUnhealthy(message);
      await bench.push(job);
      bench.engine.healthy = false;
      end(bench.engine.last);
      await settled();
      const told = bench.queue.frames.map(({ type }) => type).filter((type) => TOLD.includes(type));
      // In the other order the queue dispatches the next job before it knows.
      expect(told).toEqual(isDoubted ? ['pause', 'job_error'] : [expect.stringMatching(/^job_/)]);
      await bench.push({ job_id: 'j2', fence_token: 2 });
      expect(bench.worker.running).toBe(isDoubted ? 0 : 1);
    }
  },
);
