import { describe, expect, it } from 'vitest';
import { reservedSlots } from '../../../src/protocol/index.ts';
import { hasRoomForBatch, slotsForBatches } from '../../../src/queue/dispatch/batch-work.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const BATCH = { priority: -10 };

function settle(queue: QueueHarness, worker: FakeConnection, job = worker.lastJob()): void {
  const { job_id, fence_token } = job;
  queue.say(worker, { type: 'job_result', job_id, fence_token, result: { status: 'success' } });
}

const given = (worker: FakeConnection) => worker.frames('job').length;

describe('slots that batch work leaves free', () => {
  it('are a tenth of a pool, at least one, and none of a single slot', () => {
    expect([0, 1, 2, 10, 11, 256].map(reservedSlots)).toEqual([0, 0, 1, 1, 2, 26]);
    expect(hasRoomForBatch({ usable: 10, batch: 8, interactive: 2 })).toBe(true);
    expect(hasRoomForBatch({ usable: 10, batch: 9, interactive: 0 })).toBe(false);
    expect(slotsForBatches({ usable: 10, batch: 3, interactive: 0 })).toBe(9);
    expect(slotsForBatches({ usable: 10, batch: 3, interactive: 6 })).toBe(4);
  });

  it('are there at once for interactive jobs, stored ones and requests', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 20 });
    queue.submit(...Array.from({ length: 30 }, () => BATCH));
    expect(given(worker)).toBe(18);
    const stored = queue.job();
    expect(worker.lastJob().job_id).toBe(stored);
    queue.request();
    expect(given(worker)).toBe(20);
    // One of them ends: its slot stays free.
    settle(queue, worker, worker.frames('job')[18] as never);
    expect(given(worker)).toBe(20);
    settle(queue, worker, worker.frames('job')[0] as never);
    expect(given(worker)).toBe(21);
    expect(queue.queue.read('batchSlots', ['tiny', 'else'])).toEqual([
      { config_id: 'cfg', slots: 18 },
      { config_id: null, slots: 0 },
    ]);
  });

  it('are left by requests of a low priority too, which go on as soon as there is room', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    for (let n = 0; n < 12; n++) queue.request({ ...BATCH });
    expect(given(worker)).toBe(9);
    expect(worker.lastJob()).toMatchObject({ priority: -10 });
    queue.request();
    expect(given(worker)).toBe(10);
    settle(queue, worker);
    expect(given(worker)).toBe(10);
    settle(queue, worker, worker.frames('job')[0] as never);
    expect(given(worker)).toBe(11);
  });

  it('are counted over all workers of the pool, also after a hibernation', () => {
    const queue = new QueueHarness();
    const workers = ['a', 'b', 'c'].map((id) => queue.worker(id, { capacity: 5 }));
    queue.submit(...Array.from({ length: 20 }, () => BATCH));
    expect(workers.reduce((sum, worker) => sum + given(worker), 0)).toBe(13);
    queue.hibernate();
    queue.submit(BATCH);
    expect(workers.reduce((sum, worker) => sum + given(worker), 0)).toBe(13);
  });

  it('are batch work’s again once there is more room, on whatever worker that is', () => {
    const queue = new QueueHarness();
    const large = queue.worker('large', { capacity: 10 });
    queue.submit(...Array.from({ length: 30 }, () => BATCH));
    const small = queue.worker('small', { capacity: 1 });
    expect([given(large), given(small)]).toEqual([9, 0]);
    // Alone it is a pool of one slot.
    queue.say(large, { type: 'pause' });
    expect(given(small)).toBe(1);
  });

  it('do not stay free in a pool of one slot', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.submit(BATCH, BATCH);
    settle(queue, worker);
    expect(given(worker)).toBe(2);
  });
});

describe('a worker that declined an interactive job', () => {
  it.each(['stored', 'waiting'])('gets no batch work while that %s job waits for another', (mode) => {
    const queue = new QueueHarness();
    const other = queue.worker('other');
    queue.job();
    const worker = queue.worker('w', { capacity: 4 });
    if (mode === 'stored') queue.job({ deadline_seconds: 60 });
    else queue.request({ deadline_ms: 60_000 });
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'deadline' });
    // A gateway asks again for a request that was released.
    if (mode === 'waiting') queue.request({ job_id, deadline_ms: 60_000 });
    queue.submit(BATCH);
    expect([given(worker), given(other)]).toEqual([1, 1]);
    settle(queue, other);
    expect(other.lastJob().job_id).toBe(job_id);
    expect(given(worker)).toBe(2);
  });
});
