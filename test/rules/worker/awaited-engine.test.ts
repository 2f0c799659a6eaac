import { expect, test } from 'vitest';
import { EngineUnreachable } from '../../../src/engine/client/types.ts';
import { EXIT } from '../../../src/process/index.ts';
import { EngineWatch } from '../../../src/worker/engine-watch.ts';
import { answered } from '../../support/fake-engine.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const URL = 'http://10.0.0.1:8000';

/** A worker whose engine somebody else starts, before it is up. */
async function waiting(answer: () => Promise<never> = refused) {
  const bench = new WorkerBench();
  bench.engine.healthy = false;
  bench.engine.request = answer;
  bench.worker.start();
  await settled();
  bench.queue.open();
  const watch = new EngineWatch({
    clock: bench.clock,
    engine: bench.engine,
    worker: bench.worker,
    startupTimeoutMs: 60_000,
    hangSeconds: 120,
    canarySeconds: 0,
    revision: null,
    supervisor: null,
    awaited: { url: URL, healthPaths: ['/health', '/v1/models'], variables: 'ENGINE_URL' },
  });
  watch.start();
  return { bench, watch };
}

const refused = () =>
  Promise.reject(new EngineUnreachable('no connection', { cause: { code: 'ECONNREFUSED' } }));

/** An engine that answers every route with this status. */
const answering = (status: number) => (): Promise<never> =>
  Promise.resolve({ status, headers: {}, body: (async function* () {})() } as never);

const REFUSED = `waiting for the engine at ${URL}: connection refused. Start it, or correct ENGINE_URL.`;

test('an engine that is not there is told of within seconds, once, and in every heartbeat', async () => {
  const { bench, watch } = await waiting();
  await bench.clock.advance(3000);
  expect(bench.logged.filter((line) => line.includes('waiting for'))).toEqual([REFUSED]);
  const beat = { status: 'starting', error_message: REFUSED, advice: 'Start it, or correct ENGINE_URL.' };
  expect(bench.beats.at(-1)).toMatchObject(beat);
  const sent = bench.beats.length;
  await bench.live(57_000 - 3000);
  expect(bench.logged.filter((line) => line.includes('waiting for'))).toHaveLength(1);
  await bench.live(3000);
  watch.stop();
  expect(bench.beats.length).toBeGreaterThan(sent);
});

test('what keeps it next is told too, and nothing any more once it is healthy', async () => {
  const { bench, watch } = await waiting();
  await bench.clock.advance(2000);
  bench.engine.request = answering(503);
  await bench.clock.advance(2000);
  expect(bench.beats.at(-1)?.error_message).toMatch(
    /^waiting for .*: it answers, but is not healthy: GET \/health is 503. Look into its log; .*VLLM_STARTUP_TIMEOUT/,
  );
  bench.engine.request = () => answered('{"choices":[{}]}');
  bench.engine.healthy = true;
  await bench.clock.advance(100);
  bench.queue.grant();
  await bench.clock.advance(60_000);
  expect(bench.beats.at(-1)).toMatchObject({ status: 'running' });
  expect(bench.beats.at(-1)).not.toHaveProperty('error_message');
  watch.stop();
});

test.each([
  [refused, 'connection refused', 'Start it, or correct ENGINE_URL.'],
  [
    answering(404),
    'it answers, but is no engine: GET /health and GET /v1/models are 404',
    'Correct ENGINE_URL',
  ],
  [answering(401), 'it wants another key: GET /health is 401', 'Set ENGINE_API_KEY to its key.'],
])(
  'one that does not come ends the worker with the reason and its own advice',
  async (answer, why, advice) => {
    const { bench, watch } = await waiting(answer);
    await bench.live(61_000);
    await bench.live(10_000);
    expect(bench.exitCode).toBe(EXIT.engineFailedToStart);
    const last = bench.beats.at(-1);
    expect(last?.status).toBe('failed');
    expect(last?.error_message).toContain(
      `the engine at ${URL} was not healthy within 60 s: ${why}. ${advice}`,
    );
    expect(last?.error_message).not.toContain('VLLM_STARTUP_TIMEOUT');
    watch.stop();
  },
);
