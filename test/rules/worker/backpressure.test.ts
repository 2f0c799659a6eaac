import { expect, test } from 'vitest';
import {
  NO_PRESSURE,
  nextCheckMs,
  nextPressure,
  type Pressure,
} from '../../../src/worker/telemetry/load-watch.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const SETTINGS = { checkIntervalSeconds: 5, pauseAboveWaiting: 4, resumeAtWaiting: 1 };

/** Whether the engine is under pressure after each check, made when the watch would make it; a number is waiting requests. */
function course(checks: (number | { kv: number } | null)[]): boolean[] {
  let pressure: Pressure = NO_PRESSURE;
  let nowMs = 0;
  return checks.map((check) => {
    const gauges =
      check === null
        ? null
        : typeof check === 'number'
          ? { running: 1, waiting: check, kvCacheUsage: 0.5 }
          : { running: 1, waiting: 0, kvCacheUsage: check.kv };
    pressure = nextPressure(pressure, gauges, SETTINGS, nowMs);
    nowMs += nextCheckMs(pressure, SETTINGS);
    return pressure.isPressed;
  });
}

/** As many checks as a suspicion is confirmed by. */
const LASTING = Array<number>(11).fill(5);

test('a backlog is pressure once every check of a whole interval has found it', () => {
  expect(course([5, 5, 5, 4, 5, 5])).toEqual(Array(6).fill(false));
  expect(course(LASTING).indexOf(true)).toBe(10);
  expect(course([...LASTING.slice(0, 10), 4, ...LASTING.slice(0, 10)])).not.toContain(true);
});

test('two looks an interval apart that find requests between two steps are no pressure', () => {
  expect(course([5, 0, 5, 0, 5, 0])).not.toContain(true);
});

test('pressure lasts until few enough wait', () => {
  expect(course([...LASTING, 4, 2, 1, 5, 5]).slice(10)).toEqual([true, true, true, false, false, false]);
});

test('a suspicion and a pause are looked at again soon', () => {
  const high = { running: 1, waiting: 5, kvCacheUsage: 0 };
  const suspicious = nextPressure(NO_PRESSURE, high, SETTINGS, 0);
  const pressed = nextPressure(suspicious, { ...high, waiting: 3 }, SETTINGS, 5000);
  expect([NO_PRESSURE, suspicious, pressed].map((pressure) => nextCheckMs(pressure, SETTINGS))).toEqual([
    5000, 500, 5000,
  ]);
  expect(nextCheckMs({ isPressed: true, highSinceMs: null }, SETTINGS)).toBe(500);
  expect(nextCheckMs(suspicious, { ...SETTINGS, checkIntervalSeconds: 0.2 })).toBe(200);
});

test('a KV cache over its limit is pressure at once, until it is back within it', () => {
  expect(course([{ kv: 0.95 }, { kv: 0.96 }, { kv: 0.99 }, { kv: 0.95 }])).toEqual([
    false,
    true,
    true,
    false,
  ]);
});

test('gauges that cannot be read change nothing', () => {
  expect(course([null, 9, null, ...LASTING, null, 0]).slice(13)).toEqual([true, true, false]);
});

const FIRST_CHECK_MS = 250;
const HIGH = { running: 2, waiting: 3, kvCacheUsage: 0.5 };
const LOW = { running: 2, waiting: 0, kvCacheUsage: 0.5 };

test('under pressure an extended queue is told at once that no slot is free, and again when slots are free', async () => {
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

test('a queue is told at once whether an engine that shares its GPU waits for its turn', async () => {
  const bench = await new WorkerBench({ capacity: 4 }).ready();
  await bench.clock.advance(FIRST_CHECK_MS);
  for (const awaitsTurn of [true, false]) {
    bench.engine.awaitsTurn = awaitsTurn;
    bench.worker.engineTurned();
  }
  expect(bench.queue.framesOf('load').map(({ awaits_turn }) => awaits_turn)).toEqual([
    undefined,
    true,
    undefined,
  ]);
});

test('a job that the queue takes back is followed by a report: one that crossed it counted its slot as taken', async () => {
  const bench = await new WorkerBench({ capacity: 4, renewAfterSeconds: 1 }).ready();
  await bench.clock.advance(FIRST_CHECK_MS);
  await bench.push({ job_id: 'a', fence_token: 1 });
  await bench.push({ job_id: 'b', fence_token: 2 });
  await bench.clock.advance(5000);
  bench.queue.push({ type: 'job_revoked', job_id: 'a', reason: 'cancelled' });
  expect(bench.queue.framesOf('load').map(({ slots_free }) => slots_free)).toEqual([4, 2, 3]);
  bench.queue.push({ type: 'renewed', lease_seconds: 30, lost: [{ job_id: 'b', fence_token: 2 }] });
  expect(bench.queue.framesOf('load').map(({ slots_free }) => slots_free)).toEqual([4, 2, 3, 4]);
});

test('an end that the queue did not know of is followed by a report: it counted the slot as taken', async () => {
  const bench = await new WorkerBench({ capacity: 4, renewAfterSeconds: 1 }).ready();
  await bench.clock.advance(FIRST_CHECK_MS);
  await bench.push({ job_id: 'a', fence_token: 1 });
  await bench.clock.advance(5000);
  bench.engine.last.json(200, {});
  await settled();
  for (const outcome of ['unknown', 'accepted'])
    bench.queue.push({ type: 'ack', job_id: 'a', fence_token: 1, outcome });
  expect(bench.queue.framesOf('load').map(({ slots_free }) => slots_free)).toEqual([4, 3, 4]);
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
