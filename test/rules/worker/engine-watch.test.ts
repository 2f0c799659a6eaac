import { expect, test } from 'vitest';
import { EngineUnreachable } from '../../../src/engine/client/types.ts';
import { EngineWatch } from '../../../src/worker/engine-watch.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const CUT = 'the engine broke off in the middle of its answer';

/** A worker that serves, and what tells it of its engine. */
async function watched() {
  const bench = await new WorkerBench().ready();
  const hung: string[] = [];
  const healthy: number[] = [];
  const watch = new EngineWatch({
    clock: bench.clock,
    engine: bench.engine,
    worker: bench.worker,
    startupTimeoutMs: 60_000,
    hangSeconds: 120,
    canarySeconds: 0,
    supervisor: { healthy: () => healthy.push(bench.clock.now()), hung: (message) => hung.push(message) },
    awaited: null,
  });
  watch.start();
  await settled();
  return { bench, watch, hung, healthy };
}

test('an engine that hangs is found out although its requests break off again and again', async () => {
  const { bench, watch, hung } = await watched();
  bench.engine.load = { running: 1, waiting: 0, kvCacheUsage: 0.1, progress: 7 };
  bench.engine.request = () => Promise.reject(new EngineUnreachable('no canary'));
  for (let cut = 0; cut < 10; cut++) {
    await bench.live(20_000);
    watch.doubt(CUT);
  }
  expect(hung).toEqual([expect.stringMatching(/made nothing for 1[12]\d s/)]);
  watch.stop();
});

test('an engine that is doubted and ill for long is restarted as any other', async () => {
  const { bench, watch, hung } = await watched();
  bench.engine.healthy = false;
  watch.doubt(CUT);
  await bench.live(119_000);
  expect(hung).toEqual([]);
  await bench.live(2000);
  expect(hung).toEqual([expect.stringContaining('not been healthy for 120 s')]);
  watch.stop();
});

test('an engine that is found well serves what it served, though it does not say so again', async () => {
  const { bench, watch } = await watched();
  bench.engine.served = [];
  watch.doubt(CUT);
  expect(bench.worker.state).toBe('paused');
  await settled();
  expect(bench.worker.state).toBe('ready');
  await bench.reconnect();
  expect(bench.queue.framesOf('register')).toMatchObject([{ instance: { models: ['tiny'] } }]);
  watch.stop();
});

test('who started the engine hears of its first good probe, and of the first after each time without', async () => {
  const { bench, watch, healthy } = await watched();
  expect(healthy).toHaveLength(1);
  await bench.live(10_000);
  expect(healthy).toHaveLength(1);
  watch.restarting('it died', 1000, 'Look into its log.');
  await bench.live(5000);
  expect(healthy).toHaveLength(2);
});

test('a doubt does not bring back an engine whose process has ended', async () => {
  const { bench, watch, healthy } = await watched();
  // The probe that the doubt asks for is answered before the process ends, and heard after it.
  watch.doubt(CUT);
  bench.engine.healthy = false;
  watch.restarting('it died', 60_000, 'Look into its log.');
  await bench.live(5000);
  expect(healthy).toHaveLength(1);
});
