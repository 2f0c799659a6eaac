import { expect, test } from 'vitest';
import { EXIT } from '../../../src/process/index.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

/** A worker whose machine is taken away. */

test('drains with the time that is left, and tells queue and heartbeats why', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.worker.drain(12.5, true);
  await settled();
  expect(bench.queue.framesOf('drain')).toEqual([{ type: 'drain', reason: 'preempted' }]);
  expect(bench.beats.at(-1)).toMatchObject({ status: 'draining', preempted: true });

  await bench.clock.advance(12_000);
  expect(bench.queue.framesOf('job_release')).toEqual([]);
  await bench.clock.advance(500);
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'j1', reason: 'draining' }]);
  await settled();
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.beats.at(-1)).toMatchObject({ status: 'stopping', preempted: true });
});

test('ends sooner when a signal leaves less time', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.worker.drain(117, true);
  await bench.clock.advance(10_000);
  bench.worker.drain(5);
  await bench.clock.advance(4999);
  expect(bench.queue.framesOf('job_release')).toEqual([]);
  await bench.clock.advance(1);
  await settled();
  expect(bench.queue.framesOf('job_release')).toHaveLength(1);
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.clock.armed).toBe(0);
});

test('keeps the shorter time of a drain that has begun, and tells the reason later', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.worker.drain(5);
  bench.worker.drain(117, true);
  await settled();
  expect(bench.queue.framesOf('drain')).toEqual([{ type: 'drain' }, { type: 'drain', reason: 'preempted' }]);
  await bench.clock.advance(5000);
  await settled();
  expect(bench.queue.framesOf('job_release')).toHaveLength(1);
});

test('tells a base queue only that it drains', async () => {
  const bench = await new WorkerBench().readyWithBase();
  bench.worker.drain(117, true);
  await settled();
  expect(bench.queue.framesOf('drain')).toEqual([{ type: 'drain' }]);
});

test('ends at once while its engine still starts', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  await settled();
  bench.worker.drain(117, true);
  await settled();
  expect(bench.exitCode).toBe(EXIT.ok);
  expect(bench.beats.at(-1)).toMatchObject({ status: 'stopping', preempted: true });
});
