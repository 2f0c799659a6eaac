import { expect, test } from 'vitest';
import { EngineGone, EngineUnreachable } from '../../../src/engine/client/types.ts';
import { EXIT } from '../../../src/process/index.ts';
import { EngineWatch } from '../../../src/worker/engine-watch.ts';
import { answered } from '../../support/fake-engine.ts';
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
    revision: null,
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

/** A worker whose engine is healthy from the start, and what tells it of its engine. */
async function starting(request: WorkerBench['engine']['request'], isOurs = true, served = ['tiny']) {
  const bench = new WorkerBench();
  bench.engine.served = served;
  bench.engine.request = request;
  bench.worker.start();
  await settled();
  bench.queue.open();
  const healthy: number[] = [];
  const watch = new EngineWatch({
    clock: bench.clock,
    engine: bench.engine,
    worker: bench.worker,
    startupTimeoutMs: 60_000,
    hangSeconds: 120,
    canarySeconds: 0,
    revision: null,
    supervisor: isOurs ? { healthy: () => healthy.push(bench.clock.now()), hung: () => {} } : null,
    awaited: null,
  });
  watch.start();
  await settled();
  return { bench, watch, healthy };
}

test('no slot is offered before the engine has answered a request', async () => {
  const first = Promise.withResolvers<Awaited<ReturnType<typeof answered>>>();
  const { bench, watch, healthy } = await starting(() => first.promise);
  await bench.clock.advance(5000);
  expect([bench.queue.framesOf('register'), healthy]).toEqual([[], []]);
  expect(bench.beats.at(-1)).toMatchObject({ status: 'starting', phase: 'warming' });
  first.resolve(await answered('{"choices":[{}]}'));
  await settled();
  expect(bench.queue.framesOf('register')).toMatchObject([{ capacity: 1, instance: { models: ['tiny'] } }]);
  expect(healthy).toHaveLength(1);
  watch.stop();
});

test('an engine that fails its first request ends the worker with the reason, as one that does not start', async () => {
  const { bench, watch } = await starting(() => answered('{"error":{"message":"CUDA error"}}', 500), false);
  await bench.live(10_000);
  expect(bench.exitCode).toBe(EXIT.engineFailedToStart);
  expect(bench.queue.framesOf('register')).toEqual([]);
  expect(bench.beats.at(-1)).toMatchObject({
    status: 'failed',
    error_message:
      'the engine is healthy, but failed its first request: POST /v1/completions is 500: CUDA error. Look into its log.',
  });
  watch.stop();
});

test('who started the engine says why it died of its first request', async () => {
  const { bench, watch } = await starting(() => Promise.reject(new EngineGone('it broke the connection')));
  await bench.clock.advance(1000);
  bench.worker.engineFailed('vllm failed to start: out of memory.', false, 'out_of_memory');
  await bench.live(10_000);
  expect(bench.exitCode).toBe(EXIT.outOfMemory);
  watch.stop();
});

test('each life of an engine is asked, and no answer of an earlier one counts', async () => {
  let asked = 0;
  const first = Promise.withResolvers<Awaited<ReturnType<typeof answered>>>();
  const { bench, watch, healthy } = await starting(({ path }) => {
    if (path === '/tokenize') return answered('{}', 404);
    asked += 1;
    return asked === 1 ? first.promise : answered('{"choices":[{}]}');
  });
  bench.engine.healthy = false;
  watch.restarting('it died', 1000, 'Look into its log.');
  first.reject(new EngineGone('it broke the connection'));
  await bench.live(10_000);
  expect([asked, healthy, bench.exitCode]).toEqual([1, [], null]);
  bench.engine.healthy = true;
  await bench.live(1000);
  expect([asked, healthy.length]).toEqual([2, 1]);
  watch.stop();
});

test.each([
  ['another model is told of as what it is', 'another', 'another@@'],
  ['a tokenizer that is busy is the same', 'tiny', null],
] as const)('an engine of somebody else that comes back with %s', async (_, served, name) => {
  const tokens: { now: number[] | null } = { now: [1, 2] };
  const { bench, watch } = await starting(({ path }) => {
    if (path !== '/tokenize') return answered('{"choices":[{}]}');
    return tokens.now ? answered(JSON.stringify({ tokens: tokens.now })) : answered('{}', 404);
  }, false);
  bench.queue.grant();
  const identities = () =>
    bench.queue.framesOf('register').map(({ instance }) => instance?.model_identity as string);
  const [first] = identities();
  expect(first).toMatch(/^tiny@@\w{16}$/);
  bench.engine.healthy = false;
  await bench.live(10_000);
  expect(bench.worker.state).toBe('paused');
  tokens.now = null;
  bench.engine.served = [served];
  bench.engine.healthy = true;
  await bench.live(10_000);
  bench.queue.grant();
  expect(identities()).toEqual(name === null ? [first] : [first, name]);
  expect(bench.worker.state).toBe('ready');
  watch.stop();
});

test('an engine that did not say its names in time at its start is asked again until it does', async () => {
  const answers = ({ path }: { path: string }) =>
    path === '/tokenize' ? answered('{"tokens":[1]}') : answered('{"choices":[{}]}');
  const { bench, watch } = await starting(answers, true, []);
  bench.queue.grant();
  const registers = () => bench.queue.framesOf('register');
  expect(registers()).toMatchObject([{ instance: { models: [] } }]);
  await bench.live(10_000);
  bench.engine.served = ['tiny'];
  await bench.live(10_000);
  bench.queue.grant();
  expect(registers()).toMatchObject([{}, { capacity: 1, instance: { models: ['tiny'] } }]);
  bench.engine.served = ['other'];
  await bench.live(30_000);
  expect(registers()).toHaveLength(2);
  expect(bench.worker.state).toBe('ready');
  watch.stop();
});

test('an engine of somebody else that answers to other names while it serves is told of by these', async () => {
  const answers = ({ path }: { path: string }) =>
    path === '/tokenize' ? answered('{"tokens":[1]}') : answered('{"choices":[{}]}');
  const { bench, watch } = await starting(answers, false);
  bench.queue.grant();
  const registers = () => bench.queue.framesOf('register');
  expect(registers()).toMatchObject([{ instance: { models: ['tiny'] } }]);
  // Neither an answer that did not come in time nor another order is news.
  for (const served of [[], ['tiny', 'more'], ['more', 'tiny']]) {
    bench.engine.served = served;
    const before = registers().length;
    await bench.live(10_000);
    if (registers().length > before) bench.queue.grant();
  }
  expect(registers()).toMatchObject([{}, { capacity: 1, instance: { models: ['tiny', 'more'] } }]);
  bench.engine.served = ['other'];
  await bench.live(10_000);
  bench.queue.grant();
  expect(registers().at(-1)).toMatchObject({
    instance: { models: ['other'], model_identity: expect.stringMatching(/^other@@/) },
  });
  expect(bench.worker.state).toBe('ready');
  watch.stop();
});

test('an engine that hangs is not made well by other names', async () => {
  const { bench, watch } = await starting(() => answered('{"choices":[{}]}'), false);
  bench.queue.grant();
  bench.worker.engineRestarting('it hangs');
  bench.engine.served = ['other'];
  await bench.live(30_000);
  expect(bench.worker.state).toBe('paused');
  watch.stop();
});
