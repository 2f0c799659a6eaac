import { expect, test } from 'vitest';
import { leftBehind } from '../../support/left-behind.ts';
import { MemorySpool } from '../../support/memory-spool.ts';
import { settled, type VirtualClock } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const ACCEPTED = { type: 'ack', job_id: 'j1', fence_token: 1, outcome: 'accepted' };

/** A worker with a finished job, whose result the disk has not yet: until `disk` resolves. */
async function finishedWhileWriting() {
  const disk = Promise.withResolvers<void>();
  const spool = new MemorySpool(() => disk.promise);
  const bench = await new WorkerBench({}, spool).ready();
  await bench.push();
  bench.engine.last.complete();
  await settled();
  return { disk, spool, bench };
}

test('a result is sent at once, whatever the disk does meanwhile', async () => {
  const { disk, spool, bench } = await finishedWhileWriting();
  expect([bench.results.length, bench.worker.unacknowledged, spool.size]).toEqual([1, 1, 0]);
  disk.resolve();
  await settled();
  expect([bench.results.length, spool.size]).toEqual([1, 1]);
});

test('a result that is acknowledged while the disk writes it leaves nothing behind', async () => {
  const { disk, spool, bench } = await finishedWhileWriting();
  bench.queue.push(ACCEPTED);
  disk.resolve();
  await settled();
  expect([spool.size, bench.worker.unacknowledged]).toEqual([0, 0]);
});

test('a disk that does not answer is told of, and holds nothing back', async () => {
  const bench = await new WorkerBench({}, new MemorySpool(() => new Promise(() => {}))).ready();
  await bench.push();
  bench.engine.last.complete();
  await settled();
  expect(bench.results).toHaveLength(1);
  await bench.live(60_000);
  expect(bench.beats.at(-1)?.error_message).toContain('the disk took longer than 5 s');
});

test('a worker starts although its spool does not answer', async () => {
  const spool = new MemorySpool();
  spool.load = () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) });
  const bench = new WorkerBench({}, spool);
  bench.worker.start();
  await bench.clock.advance(5000);
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  bench.queue.grant();
  expect(bench.worker.state).toBe('ready');
});

/** From now on the spool takes this long, ms, to read each file. */
function slow(spool: MemorySpool, clock: VirtualClock, ms: number): void {
  const load = spool.load.bind(spool);
  spool.load = async function* () {
    for await (const spooled of load()) {
      await new Promise<void>((resolve) => clock.setTimeout(resolve, ms));
      yield spooled;
    }
  };
}

test('a full spool is read to its end before the worker registers, as long as each file is read in time', async () => {
  const spool = new MemorySpool();
  const earlier = await new WorkerBench({ capacity: 3 }, spool).ready();
  for (const fence_token of [1, 2, 3]) {
    await earlier.push({ job_id: `j${fence_token}`, fence_token });
    earlier.engine.last.complete();
    await settled();
  }
  const bench = new WorkerBench({}, spool);
  slow(spool, bench.clock, 4000);
  bench.worker.start();
  bench.worker.engineHealthy(['tiny']);
  await bench.clock.advance(11_999);
  expect(bench.connections).toEqual([]);
  await bench.clock.advance(1);
  bench.queue.open();
  expect(bench.queue.framesOf('register')).toMatchObject([
    { jobs: [{ job_id: 'j1' }, { job_id: 'j2' }, { job_id: 'j3' }] },
  ]);
});

test.each(['loads', 'is healthy'])(
  'a result that the disk brings late is sent, while the engine %s',
  async (engine) => {
    const spool = new MemorySpool();
    await leftBehind(spool);
    const bench = new WorkerBench({}, spool);
    slow(spool, bench.clock, 6000);
    bench.worker.start();
    await bench.clock.advance(5500);
    bench.queue.open();
    if (engine === 'is healthy') {
      bench.worker.engineHealthy(['tiny']);
      bench.queue.grant();
    }
    await bench.clock.advance(500);
    if (engine === 'loads') bench.queue.grant();
    await settled();
    expect(bench.results).toMatchObject([{ job_id: 'j1', fence_token: 1 }]);
    bench.queue.push(ACCEPTED);
    await settled();
    expect([spool.size, bench.worker.unacknowledged]).toEqual([0, 0]);
  },
);

test('a result that the disk brings after a newer attempt at its job began is forgotten', async () => {
  const { bench, spool } = await beforeDiskAnswers();
  await bench.push({ fence_token: 2 });
  await bench.clock.advance(500);
  expect([bench.results.length, spool.size, bench.worker.running]).toEqual([0, 0, 1]);
});

test('a result that the disk brings after an attempt was released is kept', async () => {
  const { bench, spool } = await beforeDiskAnswers();
  // All attempts of RunPod's queue have the same fence token.
  await bench.push({ fence_token: 1 });
  bench.queue.close();
  bench.worker.drain(0);
  await bench.clock.advance(500);
  expect([spool.size, bench.worker.unacknowledged]).toEqual([1, 1]);
});

/** A worker that takes jobs, half a second before its disk brings the result that was left behind. */
async function beforeDiskAnswers(): Promise<{ bench: WorkerBench; spool: MemorySpool }> {
  const spool = new MemorySpool();
  await leftBehind(spool);
  const bench = new WorkerBench({}, spool);
  slow(spool, bench.clock, 6000);
  bench.worker.start();
  await bench.clock.advance(5500);
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  bench.queue.grant();
  return { bench, spool };
}
