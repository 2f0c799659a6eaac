import { expect, test } from 'vitest';
import type { Job } from '../../../src/protocol/index.ts';
import { HeldJobs, type Released, type Settled } from '../../../src/worker/jobs/held-jobs.ts';
import { RunningJob } from '../../../src/worker/run/running-job.ts';

const jobOf = (job_id: string, fence_token: number): Job => ({
  type: 'job',
  job_id,
  mode: 'persisted',
  fence_token,
  payload: {},
});

const running = (id: string, fence = 1) => new RunningJob(jobOf(id, fence), 0);

const settled = (job_id: string, fence_token = 1): Settled => ({
  state: 'settled',
  settlement: { type: 'job_result', job_id, fence_token, result: {} },
  isExtended: true,
  hasCopy: false,
  mayUpload: true,
  upload: null,
});

const released = (id: string, fence = 1): Released => ({
  state: 'released',
  job: jobOf(id, fence),
  reason: 'draining',
  timing: undefined,
  partial: null,
});

test('a job has one record: the newest takes the place of the older one, and its place in the order', () => {
  const held = new HeldJobs();
  for (const record of [running('a'), running('b')]) held.add(record);
  const end = settled('a');
  held.add(end);
  expect(held.allRunning().map(({ job }) => job.job_id)).toEqual(['b']);
  expect([held.runningOf('a'), held.settledOf('a'), held.running, held.settled]).toEqual([null, end, 1, 1]);
  expect(held.refs().map(({ job_id }) => job_id)).toEqual(['b', 'a']);
});

test('a record that was replaced removes nothing', () => {
  const held = new HeldJobs();
  const [older, newer] = [running('a', 1), running('a', 2)];
  held.add(older);
  held.add(newer);
  held.remove(older);
  expect([held.holds(older), held.runningOf('a'), held.fenceOf('a'), held.running]).toEqual([
    false,
    newer,
    2,
    1,
  ]);
  held.remove(newer);
  held.remove(newer);
  expect([held.running, held.fenceOf('a'), held.hasUntold, held.hasLeases]).toEqual([0, 0, false, false]);
});

test('a released job has no lease and is not announced, and a drain waits until the queue was told', () => {
  const held = new HeldJobs();
  const record = released('a');
  held.add(record);
  expect([held.refs(), held.hasLeases, held.hasUntold, held.settled, held.running]).toEqual([
    [],
    false,
    true,
    0,
    0,
  ]);
  held.add(running('b'));
  expect([held.hasLeases, held.hasUntold]).toEqual([true, true]);
  held.remove(record);
  expect([held.allReleased(), held.hasUntold]).toEqual([[], false]);
});
