import { expect, test } from 'vitest';
import { EXIT } from '../../../src/process/exit-codes.ts';
import { leftBehind, restarted } from '../../support/left-behind.ts';
import { MemorySpool } from '../../support/memory-spool.ts';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const ACCEPTED = { type: 'ack', job_id: 'j1', fence_token: 1, outcome: 'accepted' };

test('a result outlives its process: the next one lists it, sends it, and forgets it once acknowledged', async () => {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = await restarted(spool);
  bench.worker.engineHealthy(['tiny']);
  expect(bench.queue.framesOf('register').at(-1)?.jobs).toEqual([{ job_id: 'j1', fence_token: 1 }]);
  bench.queue.grant({ resumed: ['j1'] });
  expect(bench.results).toMatchObject([
    { fence_token: 1, result: { completion: { choices: [{ message: { content: 'from before' } }] } } },
  ]);
  expect(spool.size).toBe(1);
  bench.queue.push(ACCEPTED);
  await settled();
  expect([spool.size, bench.worker.unacknowledged]).toEqual([0, 0]);
  expect(bench.engine.exchanges).toEqual([]);
});

test('an earlier result does not wait for the engine: it is delivered first, slots are offered later', async () => {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = await restarted(spool);
  expect(bench.queue.framesOf('register')).toMatchObject([{ capacity: 0, jobs: [{ job_id: 'j1' }] }]);
  bench.queue.grant({ resumed: ['j1'] });
  await settled();
  expect(bench.results).toHaveLength(1);
  bench.queue.push(ACCEPTED);
  expect([bench.worker.state, bench.readyCount]).toEqual(['paused', 0]);
  bench.worker.engineHealthy(['tiny']);
  expect(bench.queue.framesOf('register').slice(1)).toMatchObject([
    { capacity: 2, jobs: [], instance: { models: ['tiny'] } },
  ]);
  expect(bench.worker.state).toBe('connecting');
  bench.queue.grant();
  expect([bench.worker.state, bench.readyCount]).toEqual(['ready', 1]);
  await bench.push({ job_id: 'j2', fence_token: 2 });
  expect(bench.engine.exchanges).toHaveLength(1);
  expect(bench.connections.filter(({ target }) => target.url.includes('/ws?'))).toHaveLength(1);
});

test('slots offered later are paused when the engine has fallen ill meanwhile', async () => {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = await restarted(spool);
  bench.queue.grant();
  bench.worker.engineHealthy(['tiny']);
  bench.worker.engineUnhealthy('refused');
  bench.queue.grant();
  const frames = bench.queue.frames
    .map(({ type }) => type)
    .filter((type) => /register|pause|resume/.test(type));
  expect(frames).toEqual(['register', 'pause', 'register', 'pause']);
});

test('an engine that fails at once does not keep an earlier result from its queue', async () => {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = new WorkerBench({}, spool);
  bench.worker.start();
  bench.worker.engineFailed('no GPU was found', false);
  await settled();
  bench.queue.open();
  bench.queue.grant({ resumed: ['j1'] });
  await settled();
  expect(bench.results).toHaveLength(1);
  bench.queue.push(ACCEPTED);
  await settled();
  expect([spool.size, bench.exitCode]).toEqual([0, EXIT.engineFailedToStart]);
  expect(bench.clock.armed).toBe(0);
});

test('a job pushed before the engine is up is released', async () => {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = await restarted(spool);
  bench.queue.grant();
  await bench.push({ job_id: 'j2', fence_token: 2 });
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'j2', reason: 'engine_restarting' }]);
});

test('a result for a base queue waits for the engine, is sent once connected, and is forgotten then', async () => {
  const spool = new MemorySpool();
  const first = await new WorkerBench({}, spool).readyWithBase();
  await first.push();
  first.queue.close();
  first.engine.last.complete();
  await settled();
  expect(spool.size).toBe(1);
  const bench = await restarted(spool);
  expect(bench.queue.frames).toEqual([]);
  bench.worker.engineHealthy(['tiny']);
  await bench.clock.advance(1000);
  expect(bench.results).toHaveLength(1);
  await settled();
  expect(spool.size).toBe(0);
});

test('an earlier result waits for the acknowledgement of an extended queue that is slow to answer', async () => {
  for (const silentMs of [9000, 11_000]) {
    const spool = new MemorySpool();
    await leftBehind(spool);
    const bench = await restarted(spool);
    await bench.clock.advance(silentMs);
    expect([bench.results.length, bench.worker.unacknowledged, spool.size]).toEqual([0, 1, 1]);
    bench.queue.grant({ resumed: ['j1'] });
    await settled();
    expect(bench.results).toHaveLength(1);
    bench.queue.push(ACCEPTED);
    await settled();
    expect(spool.size).toBe(0);
  }
});

test('slots are offered to a base queue over a new connection, which results for another queue outlast', async () => {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = await restarted(spool);
  await bench.clock.advance(10_000);
  const first = bench.queue;
  bench.worker.engineHealthy(['tiny']);
  expect(first.closedBy).toBe('destroyed');
  await bench.clock.advance(1000);
  bench.queue.open();
  expect(bench.queue.framesOf('register')).toMatchObject([{ capacity: 2 }]);
  await bench.clock.advance(1000);
  expect([bench.worker.state, bench.results.length, spool.size]).toEqual(['ready', 0, 1]);
});

test('what was not synced when the machine stopped is gone, and nothing pretends otherwise', async () => {
  const spool = new MemorySpool(() => new Promise(() => {}));
  await leftBehind(spool);
  const bench = await restarted(spool);
  expect(bench.queue.frames).toEqual([]);
});

test('an outcome whose caller waits stays off the disk', async () => {
  const spool = new MemorySpool();
  const bench = await new WorkerBench({}, spool).ready();
  await bench.push(STREAM_JOB);
  bench.engine.last.json(404, { error: 'x' });
  await bench.clock.advance(0);
  expect(bench.results).toHaveLength(1);
  expect(spool.size).toBe(0);
});

test('an error outlives its process too', async () => {
  const spool = new MemorySpool();
  const first = await new WorkerBench({}, spool).ready();
  await first.push();
  first.queue.close();
  first.engine.last.json(400, { error: { message: 'too long' } });
  await settled();
  const bench = await restarted(spool);
  bench.queue.grant({ resumed: ['j1'] });
  await settled();
  expect(bench.errors).toMatchObject([{ job_id: 'j1', http_status: 400, code: 'engine_refused' }]);
});

test.each(['stale', 'unknown'])('a settlement that the queue answers as %s is forgotten', async (outcome) => {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = await restarted(spool);
  bench.queue.grant();
  bench.queue.push({ ...ACCEPTED, outcome });
  await settled();
  expect(spool.size).toBe(0);
});

test('a newer attempt at the job takes the place of a kept result', async () => {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = await restarted(spool);
  bench.worker.engineHealthy(['tiny']);
  bench.queue.grant();
  bench.queue.grant();
  await bench.push({ fence_token: 2 });
  expect([spool.size, bench.worker.unacknowledged]).toEqual([0, 0]);
  bench.engine.last.complete();
  await settled();
  expect(bench.results.at(-1)?.fence_token).toBe(2);
  expect([spool.size, bench.worker.unacknowledged]).toEqual([1, 1]);
});

test('a worker that ends, or is refused, leaves its results to the next process', async () => {
  for (const end of ['drain', 'refusal']) {
    const spool = new MemorySpool();
    const bench = await new WorkerBench({}, spool).ready();
    await bench.push();
    bench.engine.last.complete();
    await settled();
    if (end === 'drain') bench.worker.drain();
    else bench.queue.close(4409);
    await bench.clock.advance(20_000);
    expect(bench.exitCode).not.toBeNull();
    expect(spool.size).toBe(1);
  }
});

test('a disk that fails is told once and in every heartbeat, and results go on from memory', async () => {
  const spool = new MemorySpool();
  const bench = await new WorkerBench({ capacity: 3 }, spool).ready();
  spool.problem = 'the disk of /spool is full';
  for (const fence of [1, 2, 3]) {
    await bench.push({ job_id: `j${fence}`, fence_token: fence });
    bench.engine.last.complete();
    await settled();
  }
  expect(bench.results).toHaveLength(3);
  await bench.live(60_000);
  const told = 'finished results are kept in memory only';
  expect(bench.logged.filter((message) => message === told)).toHaveLength(1);
  expect(bench.beats.at(-1)).toMatchObject({
    status: 'running',
    running: 0,
    error_message: `${told}: the disk of /spool is full`,
  });
  await bench.reconnect({ resumed: ['j1', 'j2', 'j3'] });
  expect(bench.results).toHaveLength(3);
  spool.problem = null;
  await bench.push({ job_id: 'j4', fence_token: 4 });
  bench.engine.last.complete();
  await bench.live(60_000);
  expect(bench.beats.at(-1)?.error_message).toBeUndefined();
});

test('a spool that cannot be read does not keep the worker from its jobs', async () => {
  const spool = new MemorySpool();
  spool.problem = '/spool cannot be written (EACCES)';
  const bench = await new WorkerBench({}, spool).ready();
  await bench.push();
  expect(bench.engine.exchanges).toHaveLength(1);
  expect(bench.beats.at(-1)?.error_message).toContain('EACCES');
});
