import { expect, test } from 'vitest';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const GIB = 2 ** 30;
const GAUGES = { running: 2, waiting: 1, kvCacheUsage: 0.5, generatedTokens: 1000 };

test('a start is told step by step: a new phase at once, progress within one in two seconds', async () => {
  const bench = new WorkerBench({ createdAtMs: 1000 });
  const startedAt = bench.clock.now();
  bench.worker.start();
  await settled();
  const step = async (phase: 'starting' | 'loading' | 'capturing' | 'warming', progress?: number) => {
    bench.worker.enginePhase({ phase, progress, atMs: bench.clock.now() });
    await settled();
  };
  await step('starting');
  await bench.clock.advance(1000);
  for (const done of [0, 0.25, 0.5]) await step('loading', done);
  expect(bench.beats.map(({ phase, progress }) => [phase, progress])).toEqual([
    ['starting', undefined],
    ['loading', 0],
  ]);
  await bench.clock.advance(2000);
  await step('capturing');
  expect(bench.beats.slice(2)).toMatchObject([
    { phase: 'loading', progress: 0.5, phase_since_ms: startedAt + 1000 },
    { phase: 'capturing', start: { weights_loaded_ms: startedAt + 3000 } },
  ]);
  expect(bench.beats.at(-1)).not.toHaveProperty('progress');
  expect(bench.beats.at(-1)).not.toHaveProperty('tokens_per_second');
  await bench.clock.advance(500);
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  bench.queue.grant();
  await bench.clock.advance(100);
  await bench.push();
  await bench.live(60_000);
  expect(bench.beats.at(-1)).toMatchObject({
    status: 'running',
    running: 1,
    start: {
      created_ms: 1000,
      engine_started_ms: startedAt,
      weights_loaded_ms: startedAt + 3000,
      engine_healthy_ms: startedAt + 3500,
      first_job_ms: startedAt + 3600,
    },
  });
  expect(bench.beats.at(-1)).not.toHaveProperty('phase');
});

test('a start of the engine in place leaves the times of the cold start as they were', async () => {
  const bench = await new WorkerBench({ createdAtMs: 1000 }).ready();
  const { start } = bench.beats.at(-1)!;
  await bench.clock.advance(10_000);
  bench.worker.engineRestarting('killed');
  bench.worker.enginePhase({ phase: 'loading', progress: 0.5, atMs: bench.clock.now() });
  bench.worker.engineHealthy(['tiny']);
  await settled();
  expect(bench.beats.at(-1)).toMatchObject({ status: 'running', start: start! });
});

test('figures of engine, GPUs and worker are in it', async () => {
  const bench = new WorkerBench();
  bench.engine.load = GAUGES;
  bench.gpus = [
    { name: 'H100', memory_used_bytes: 61 * GIB, memory_total_bytes: 80 * GIB },
    { name: 'H100', utilization: 0.9, temperature_celsius: 64, power_watts: 412 },
  ];
  await bench.ready();
  expect(bench.beats.at(-1)).toMatchObject({
    model: 'tiny',
    engine_version: '0.32.0',
    engine_running: 2,
    engine_waiting: 1,
    kv_cache_usage: 0.5,
    gpus: bench.gpus,
    capacity: 1,
    interval_seconds: 60,
    missed_renewals: 0,
  });
  expect(bench.beats.at(-1)).not.toHaveProperty('tokens_per_second');
  bench.engine.load = { ...GAUGES, generatedTokens: 7000 };
  await bench.live(60_000);
  expect(bench.beats.at(-1)?.tokens_per_second).toBeCloseTo(100, 0);
});

test('an engine that counts no tokens is counted by what it says of its answers', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  const usage = { prompt_tokens: 5, completion_tokens: 600 };
  bench.engine.last.json(200, { choices: [{ message: {}, finish_reason: 'stop' }], usage });
  await bench.live(60_000);
  expect(bench.beats.at(-1)?.tokens_per_second).toBeCloseTo(10, 0);
});

test('the time to the first token is the median of the streams since the last heartbeat', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push(STREAM_JOB);
  await bench.clock.advance(250);
  bench.engine.last.head(200, 'text/event-stream').write('data: {}\n\ndata: [DONE]\n\n').end();
  await bench.live(60_000);
  expect(bench.beats.at(-1)).toMatchObject({ first_token_ms: 250 });
  await bench.live(60_000);
  expect(bench.beats.at(-1)).not.toHaveProperty('first_token_ms');
});

test('an engine and a driver that do not answer hold nothing up', async () => {
  const bench = new WorkerBench();
  bench.engine.gauges = () => new Promise(() => {});
  bench.readGpus = () => new Promise(() => {});
  await bench.ready();
  await bench.clock.advance(1000);
  expect(bench.beats.map(({ status }) => status)).toEqual(['starting', 'running']);
  bench.worker.engineFailed('vllm died: killed. Use less memory.', true, 'out_of_memory', 'Use less memory.');
  await settled();
  expect(bench.beats.at(-1)).toMatchObject({
    status: 'error',
    error_message: 'vllm died: killed. Use less memory.',
    advice: 'Use less memory.',
  });
});

test('renewals that the queue does not answer are counted', async () => {
  const bench = await new WorkerBench({ heartbeatIntervalSeconds: 1 }).ready();
  await bench.push();
  await bench.live(24_500);
  bench.queue.push({ type: 'renewed', lease_seconds: 30 });
  await bench.live(24_500);
  expect(bench.beats.at(-1)).toMatchObject({ missed_renewals: 0 });
  await bench.live(24_500);
  expect(bench.beats.at(-1)).toMatchObject({ missed_renewals: 1 });
});
