import { expect, it } from 'vitest';
import { parseWorkerFrame } from '../../../src/protocol/index.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const features = ['ack', 'answer', 'release', 'renew', 'load', 'frames', 'answer_settlements'];

function settle(queue: QueueHarness, worker: FakeConnection, more: object = {}): void {
  const { job_id, fence_token } = worker.lastJob();
  const frame = { type: 'job_result', job_id, fence_token, result: {}, ...more };
  queue.queue.onSettlement(worker, parseWorkerFrame(JSON.stringify(frame)));
  queue.queue.beforeCommit();
}

it('grants settlements on the answer socket where it has the relays, and nowhere else', () => {
  const apart = new QueueHarness().worker('w', { features });
  expect(apart.frames('registered')[0]?.features).not.toContain('answer_settlements');
  const queue = new QueueHarness({ has_relays: true });
  expect(queue.worker('w', { features }).frames('registered')[0]?.features).toContain('answer_settlements');
  expect(queue.queue.frames.settlerAt('q/w')).toMatchObject({ isGranted: true });
  queue.worker('older');
  expect(queue.queue.frames.settlerAt('q/older')).toMatchObject({ isGranted: false });
  expect(queue.queue.frames.settlerAt('q/nobody')).toBeNull();
});

it('takes one as from the control socket, under the same fences, and acknowledges it there', () => {
  const queue = new QueueHarness({ has_relays: true });
  const worker = queue.worker('w', { features });
  const id = queue.job();
  settle(queue, worker, { fence_token: worker.lastJob().fence_token + 1 });
  expect(queue.state(id)).toBe('leased');
  settle(queue, worker);
  settle(queue, worker);
  expect(queue.state(id)).toBe('succeeded');
  expect(worker.frames('ack').map(({ outcome }) => outcome)).toEqual(['stale', 'accepted', 'accepted']);
});

it('lets nothing else in there: a registration least of all', () => {
  const queue = new QueueHarness({ has_relays: true });
  const worker = queue.worker('w', { features });
  const frame = { type: 'register', worker_id: 'w', config_id: 'cfg', capacity: 9 };
  queue.queue.onSettlement(worker, parseWorkerFrame(JSON.stringify(frame)));
  expect(worker.frames('error')).toMatchObject([
    { message: expect.stringContaining('"register" on the answer') },
  ]);
  expect(worker.frames('registered')).toHaveLength(1);
});

it('gives no job to a worker of which only the answer socket is heard', () => {
  const queue = new QueueHarness({ has_relays: true });
  const worker = queue.worker('w', { features });
  const id = queue.job();
  queue.advance(32);
  expect(queue.state(id)).toBe('pending');
  settle(queue, worker);
  expect(worker.frames('job')).toHaveLength(1);
  queue.job();
  expect(worker.frames('job')).toHaveLength(1);
  queue.say(worker, { type: 'resume' });
  expect(worker.frames('job')).toHaveLength(2);
});
