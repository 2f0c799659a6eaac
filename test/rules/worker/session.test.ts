import { expect, test } from 'vitest';
import { EXIT } from '../../../src/process/exit-codes.ts';
import { PONG_TEXT } from '../../../src/protocol/index.ts';
import { denialOf } from '../../../src/worker/session/socket.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

test('the worker dials while the engine loads, and offers its slots the moment it is healthy', async () => {
  const bench = new WorkerBench({ capacity: 3 });
  bench.worker.start();
  expect(bench.queue.target).toEqual({
    url: 'ws://queue/ws?queue_id=vllm-queue&config_id=config&worker_id=w',
    token: 'secret',
  });
  bench.queue.open();
  await bench.clock.advance(5000);
  expect(bench.queue.frames).toEqual([]);
  bench.worker.engineHealthy(['tiny', 'alias']);
  expect(bench.queue.frames).toEqual([
    {
      type: 'register',
      worker_id: 'w',
      config_id: 'config',
      capacity: 3,
      protocol: 1,
      instance: { id: 'w', boot_id: 'b', models: ['tiny', 'alias'] },
      jobs: [],
    },
  ]);
  bench.queue.grant();
  expect(bench.worker.state).toBe('ready');
  expect(bench.readyCount).toBe(1);
  expect(bench.relay.target).toEqual({ url: 'ws://queue/answers?worker_id=w', token: 'secret' });
});

test('a queue that does not answer register within a second is taken for a base queue', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  await bench.clock.advance(999);
  expect(bench.worker.state).toBe('connecting');
  await bench.clock.advance(1);
  expect(bench.worker.state).toBe('ready');
  await bench.push({ job_type: undefined });
  bench.engine.last.complete();
  await settled();
  expect(bench.results).toHaveLength(1);
  expect(bench.worker.unacknowledged).toBe(0);
});

test('a job before any answer to register means a base queue, and is run', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  await bench.push();
  expect(bench.worker.state).toBe('ready');
  expect(bench.engine.exchanges).toHaveLength(1);
});

test('a job that comes as a binary message is run like any other', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  bench.queue.grant();
  const payload = { messages: [{ role: 'user', content: '😀' }] };
  const job = { type: 'job', job_id: 'j', mode: 'persisted', config_id: 'config', fence_token: 7, payload };
  bench.queue.pushBytes(new TextEncoder().encode(JSON.stringify({ ...job, job_type: 'chat_completion' })));
  await settled();
  bench.engine.last.complete();
  await settled();
  expect(bench.results).toMatchObject([{ job_id: 'j', fence_token: 7 }]);
});

test('a queue known to be ours that is slow after a reconnect is not taken for a base queue', async () => {
  const bench = await new WorkerBench().ready();
  bench.queue.close();
  await bench.clock.advance(1000);
  bench.queue.open();
  await bench.clock.advance(9000);
  expect(bench.worker.state).toBe('connecting');
  bench.queue.grant();
  expect(bench.worker.state).toBe('ready');
});

test('an unhealthy engine pauses dispatch, a healthy one resumes it', async () => {
  const bench = await new WorkerBench().ready();
  bench.worker.engineUnhealthy('refused');
  expect(bench.worker.state).toBe('paused');
  await bench.push();
  expect(bench.queue.framesOf('job_release')).toEqual([
    { type: 'job_release', job_id: 'j1', fence_token: 1, reason: 'engine_restarting' },
  ]);
  bench.worker.engineHealthy(['tiny']);
  expect(bench.worker.state).toBe('ready');
  const dispatch = bench.queue.frames.map(({ type }) => type).filter((type) => /pause|resume/.test(type));
  expect(dispatch).toEqual(['pause', 'resume']);
});

test('a reconnect while the engine is unhealthy registers at once, for the jobs, and pauses', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.worker.engineUnhealthy('late');
  await bench.reconnect();
  const [register, pause] = bench.queue.frames;
  expect(register).toMatchObject({ type: 'register', jobs: [{ job_id: 'j1', fence_token: 1 }] });
  expect(pause).toEqual({ type: 'pause' });
  expect(bench.worker.state).toBe('paused');
});

test('two missed pongs of our queue end the connection, and the worker dials again', async () => {
  const bench = await new WorkerBench().ready();
  const first = bench.queue;
  await bench.clock.advance(15_000);
  expect(first.textPings).toBe(1);
  first.push(PONG_TEXT);
  await bench.clock.advance(30_000);
  expect(first.closedBy).toBeNull();
  await bench.clock.advance(15_000);
  expect(first.closedBy).toBe('destroyed');
  await bench.clock.advance(1000);
  expect(bench.queue).not.toBe(first);
});

test('a base queue is pinged on the WebSocket level and has ten seconds to answer', async () => {
  const bench = await new WorkerBench().readyWithBase();
  const first = bench.queue;
  await bench.clock.advance(29_000);
  expect(first.websocketPings).toBe(1);
  first.pong();
  await bench.clock.advance(30_000);
  expect([first.websocketPings, first.textPings]).toEqual([2, 0]);
  await bench.clock.advance(10_000);
  expect(first.closedBy).toBe('destroyed');
});

test('a refused dial is tried again after waits that double up to a minute', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  const waits: number[] = [];
  for (let failure = 0; failure < 8; failure++) {
    const dials = bench.connections.length;
    bench.queue.close();
    const from = bench.clock.now();
    while (bench.connections.length === dials) await bench.clock.advance(500);
    waits.push(bench.clock.now() - from);
  }
  expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
});

test('a connection that lasted makes the next wait short again', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  for (const wait of [1000, 2000, 4000]) {
    bench.queue.close();
    await bench.clock.advance(wait);
  }
  bench.queue.open();
  await bench.clock.advance(10_000);
  bench.queue.close();
  await bench.clock.advance(1000);
  expect(bench.connections).toHaveLength(5);
});

test('a restarting queue is dialled at once', async () => {
  const bench = await new WorkerBench().ready();
  const first = bench.queue;
  first.close(1012);
  await bench.clock.advance(0);
  expect(bench.queue).not.toBe(first);
});

test('a dial nobody answers is given up after ten seconds', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  const first = bench.queue;
  await bench.clock.advance(10_000);
  expect(first.closedBy).toBe('destroyed');
  await bench.clock.advance(1000);
  expect(bench.connections).toHaveLength(2);
});

test.each([
  ['an unknown token', 4401, undefined, /does not know this token: check CASOLA_API_TOKEN/],
  ['a token without the scope', 4403, undefined, /lacks the scope "worker"/],
  ['another worker of the same id', 4409, undefined, /give each worker its own CASOLA_INSTANCE_ID/],
  ['an upgrade answered with 401', 1006, 401, /check CASOLA_API_TOKEN/],
  ['an upgrade answered with 403', 1006, 403, /lacks the scope/],
])('%s ends the worker with one clear line', async (_case, code, httpStatus, line) => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.queue.close(code, '', httpStatus);
  await bench.clock.advance(120_000);
  expect(bench.exitCode).toBe(EXIT.deniedByQueue);
  expect(bench.logged.filter((message) => line.test(message))).toHaveLength(1);
  expect(bench.engine.last.isAborted).toBe(true);
  expect(bench.connections.filter(({ target }) => target.url.includes('/ws'))).toHaveLength(1);
  expect(bench.beats.at(-1)).toMatchObject({ status: 'error', error_message: expect.stringMatching(line) });
  expect(bench.clock.armed).toBe(0);
});

test('a denial says what the queue said of it', () => {
  const worker = { wsUrl: 'wss://me:secret@queue', workerId: 'w', token: 'secret' };
  const answered = (httpStatus: number, explanation: string) => {
    return { code: 1006, reason: `HTTP ${httpStatus}: ${explanation}`, httpStatus, explanation };
  };
  expect(denialOf({ code: 4403, reason: 'this token is for another pool' }, worker)).toBe(
    'the queue at wss://queue denies the token in CASOLA_API_TOKEN: this token is for another pool',
  );
  expect(denialOf(answered(401, 'The token "w" has expired.'), worker)).toMatch(
    /: The token "w" has expired.$/,
  );
  const tokenless = { ...worker, token: undefined };
  expect(denialOf(answered(403, 'Only this machine is served.'), tokenless)).toBe(
    'the queue at wss://queue denies this worker: Only this machine is served.',
  );
  expect(denialOf(answered(401, 'Send a token.'), tokenless)).toContain(
    'asks for a token: set CASOLA_API_TOKEN',
  );
  expect(denialOf({ code: 1006, reason: 'HTTP 502 Bad Gateway', httpStatus: 502 }, worker)).toBeNull();
});

test('frames that cannot be read or are unknown disturb nothing', async () => {
  const bench = await new WorkerBench().ready();
  bench.queue.push('not json');
  bench.queue.push('[1]');
  bench.queue.push({ type: 'job' });
  bench.queue.push({ type: 'confetti' });
  bench.queue.push({ type: 'confetti' });
  await bench.push();
  expect(bench.worker.running).toBe(1);
  expect(bench.logged.filter((message) => message.includes('unknown here'))).toHaveLength(1);
});

test('the load is told when it changed, at each check of the gauges', async () => {
  const bench = new WorkerBench({ capacity: 4 });
  bench.engine.load = { running: 1, waiting: 0, kvCacheUsage: 0.5 };
  await bench.ready();
  await bench.clock.advance(15_000);
  const load = { type: 'load', running: 1, waiting: 0, kv_cache_usage: 0.5, slots_free: 4 };
  expect(bench.queue.framesOf('load')).toEqual([load]);
  await bench.push();
  await bench.clock.advance(5000);
  expect(bench.queue.framesOf('load')).toEqual([load, { ...load, slots_free: 3 }]);
});

test('settlements of one tick go in one message', async () => {
  const bench = await new WorkerBench({ capacity: 3 }).ready();
  for (const job_id of ['j1', 'j2', 'j3']) await bench.push({ job_id });
  bench.queue.texts.length = 0;
  for (const exchange of bench.engine.exchanges) exchange.json(200, { id: 'c', model: 'tiny', choices: [] });
  await bench.clock.advance(1);
  const said = bench.queue.texts.map((text) => [JSON.parse(text)].flat().map(({ type }) => type));
  expect(said).toContainEqual(['job_result', 'job_result', 'job_result']);
});
