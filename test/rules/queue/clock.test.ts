import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

const HOUR_MS = 3_600_000;

/** The host sees that its clock stands still, and starts it again with the one that was set back. */
function setBack(queue: QueueHarness): void {
  queue.queue.clockSetBack();
  queue.nowMs -= HOUR_MS;
  queue.restart();
}

describe('a clock that is set back', () => {
  it('holds no job of a worker that is gone', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    const id = queue.job();
    setBack(queue);
    queue.advance(12);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'pending', attempts: 0 });
  });

  it('leaves deadlines and retry delays as long as they were', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 3 });
    const { fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_error', job_id: id, fence_token, error: 'busy', retryable: true });
    const expiring = queue.job({ config_id: 'other', deadline_seconds: 100 });
    queue.advance(0.1);
    setBack(queue);
    const again = queue.worker('w');
    queue.advance(5);
    expect(again.lastJob()).toMatchObject({ job_id: id, attempt: 2 });
    queue.advance(90);
    expect(queue.state(expiring)).toBe('pending');
    queue.advance(6);
    expect(queue.state(expiring)).toBe('expired');
  });

  it('keeps the order of a ledger, and what was settled for its retention time', () => {
    const queue = new QueueHarness({ retention_seconds: 3600 });
    const worker = queue.worker('w');
    const [id, done] = [queue.job(), queue.job()];
    queue.queue.do('cancel', done, 'cancelled', null);
    queue.advance(1);
    queue.drop(worker);
    setBack(queue);
    queue.advance(12);
    const steps = queue.queue.read('ledger', id, null)?.steps ?? [];
    expect(steps.map(({ step }) => step)).toEqual([
      'submitted',
      'dispatched',
      'disconnected',
      'disconnected',
      'returned',
    ]);
    expect(steps.map(({ at }) => at)).toEqual(steps.map(({ at }) => at).toSorted());
    expect(queue.state(done)).toBe('cancelled');
    queue.advance(3600);
    expect(queue.state(done)).toBe('missing');
  });

  it('keeps the order of a ledger too when it was set back while the queue was down', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    queue.advance(20);
    queue.drop(worker);
    queue.nowMs -= HOUR_MS;
    queue.restart();
    queue.advance(12);
    const steps = queue.queue.read('ledger', id, null)?.steps ?? [];
    expect(steps.map(({ step }) => step)).toEqual([
      'submitted',
      'dispatched',
      'disconnected',
      'disconnected',
      'returned',
    ]);
    expect(steps.map(({ at }) => at)).toEqual(steps.map(({ at }) => at).toSorted());
  });

  it('keeps a worker that left for its retention time', () => {
    const queue = new QueueHarness({ retention_seconds: 3600 });
    queue.drop(queue.worker('w'));
    setBack(queue);
    queue.advance(3601);
    expect(queue.database.prepare('SELECT worker_id FROM sessions').all()).toEqual([]);
  });

  it('is made up for once: a hibernation later changes nothing', () => {
    const queue = new QueueHarness();
    const id = queue.job({ deadline_seconds: 100 });
    setBack(queue);
    queue.advance(50);
    queue.hibernate();
    queue.advance(40);
    expect(queue.state(id)).toBe('pending');
    queue.advance(11);
    expect(queue.state(id)).toBe('expired');
  });
});

describe('a clock that is set forward', () => {
  it('beyond all that was due holds up nothing that is due from then on', () => {
    const queue = new QueueHarness();
    queue.worker('w', { config_id: 'other' });
    // The alarm is set for when the fleet is told that the worker is still there.
    queue.setForward(7 * 86_400);
    const worker = queue.worker('new');
    const id = queue.job();
    queue.drop(worker);
    queue.advance(15);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'pending' });
  });
});
