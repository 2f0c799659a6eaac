import { expect, test } from 'vitest';
import { NO_PRESSURE, nextPressure, type Pressure } from '../../../src/worker/backpressure.ts';
import { settled, WorkerBench } from '../../support/worker-fakes.ts';

const SETTINGS = { checkIntervalSeconds: 5, pauseAboveWaiting: 4, resumeAtWaiting: 1, kvCacheLimit: 0.9 };

/** Whether the engine is under pressure after each check; a number is waiting requests. */
function course(checks: (number | { kv: number } | null)[], settings = SETTINGS): boolean[] {
  let pressure: Pressure = NO_PRESSURE;
  return checks.map((check) => {
    const gauges =
      check === null
        ? null
        : typeof check === 'number'
          ? { running: 1, waiting: check, kvCacheUsage: 0.5 }
          : { running: 1, waiting: 0, kvCacheUsage: check.kv };
    pressure = nextPressure(pressure, gauges, settings);
    return pressure.isPressed;
  });
}

test('two checks in a row with too many waiting are pressure, one is a burst', () => {
  expect(course([5, 4, 5, 4])).toEqual([false, false, false, false]);
  expect(course([5, 5])).toEqual([false, true]);
});

test('pressure lasts until few enough wait', () => {
  expect(course([9, 9, 4, 2, 1, 5, 5])).toEqual([false, true, true, true, false, false, true]);
});

test('a KV cache over its limit is pressure at once, until it is back within it', () => {
  expect(course([{ kv: 0.9 }, { kv: 0.91 }, { kv: 0.95 }, { kv: 0.9 }])).toEqual([false, true, true, false]);
  expect(course([{ kv: 1 }], { ...SETTINGS, kvCacheLimit: 0 })).toEqual([false]);
});

test('gauges that cannot be read change nothing', () => {
  expect(course([null, 9, null, 9, null, 0])).toEqual([false, false, false, true, true, false]);
});

const FIRST_CHECK_MS = 250;
const HIGH = { running: 2, waiting: 3, kvCacheUsage: 0.5 };
const LOW = { running: 2, waiting: 0, kvCacheUsage: 0.5 };

test('under pressure a queue of ours hears of no free slot at once, and of them again when it is over', async () => {
  const bench = new WorkerBench({ capacity: 4 });
  bench.engine.load = LOW;
  await bench.ready();
  await bench.clock.advance(FIRST_CHECK_MS);
  bench.engine.load = HIGH;
  await bench.clock.advance(10_000);
  bench.engine.load = LOW;
  await bench.clock.advance(5000);
  expect(bench.queue.framesOf('load').map(({ waiting, slots_free }) => [waiting, slots_free])).toEqual([
    [0, 4],
    [3, 4],
    [3, 0],
    [0, 4],
  ]);
  const dispatch = bench.queue.frames.map(({ type }) => type).filter((type) => /pause|resume/.test(type));
  expect(dispatch).toEqual(['pause', 'resume']);
  expect(bench.worker.state).toBe('ready');
});

test('a job that the queue takes back is followed by a report: one that crossed it counted its slot as taken', async () => {
  const bench = await new WorkerBench({ capacity: 4, renewAfterSeconds: 1 }).ready();
  await bench.clock.advance(FIRST_CHECK_MS);
  await bench.push({ job_id: 'a', fence_token: 1 });
  await bench.push({ job_id: 'b', fence_token: 2 });
  await bench.clock.advance(5000);
  bench.queue.push({ type: 'job_revoked', job_id: 'a', reason: 'cancelled' });
  expect(bench.queue.framesOf('load').map(({ slots_free }) => slots_free)).toEqual([4, 2, 3]);
  bench.queue.push({ type: 'renewed', lease_seconds: 30, lost: ['b'] });
  expect(bench.queue.framesOf('load').map(({ slots_free }) => slots_free)).toEqual([4, 2, 3, 4]);
});

test('a base queue is paused and resumed, also over a new connection', async () => {
  const bench = new WorkerBench({ capacity: 4 });
  bench.engine.load = HIGH;
  await bench.readyWithBase();
  await bench.clock.advance(FIRST_CHECK_MS);
  await bench.clock.advance(5000);
  expect(bench.queue.frames.map(({ type }) => type)).toEqual(['register', 'pause']);
  bench.queue.close();
  await bench.clock.advance(1000);
  bench.queue.open();
  await bench.clock.advance(1000);
  expect(bench.queue.frames.map(({ type }) => type)).toEqual(['register', 'pause']);
  bench.engine.load = LOW;
  await bench.clock.advance(5000);
  expect(bench.queue.frames.map(({ type }) => type)).toEqual(['register', 'pause', 'resume']);
});

test('pressure ends with the engine that was under it', async () => {
  const bench = new WorkerBench({ capacity: 4 });
  bench.engine.load = HIGH;
  await bench.ready();
  await bench.clock.advance(FIRST_CHECK_MS);
  await bench.clock.advance(5000);
  bench.worker.engineUnhealthy('refused');
  bench.engine.load = null;
  bench.worker.engineHealthy(['tiny']);
  const dispatch = bench.queue.frames.map(({ type }) => type).filter((type) => /pause|resume/.test(type));
  expect(dispatch).toEqual(['pause', 'resume']);
});

test('switched off, the gauges are left alone', async () => {
  const bench = new WorkerBench({ backpressure: null });
  bench.engine.load = HIGH;
  await bench.ready();
  await bench.clock.advance(20_000);
  expect(bench.queue.framesOf('load')).toEqual([]);
  expect(bench.queue.framesOf('pause')).toEqual([]);
});

test('jobs that were on their way when the pause went out are run', async () => {
  const bench = new WorkerBench({ capacity: 2 });
  bench.engine.load = HIGH;
  await bench.ready();
  await bench.clock.advance(FIRST_CHECK_MS);
  await bench.clock.advance(5000);
  await bench.push();
  await settled();
  expect(bench.engine.exchanges).toHaveLength(1);
});
