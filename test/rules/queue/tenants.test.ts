import { describe, expect, it } from 'vitest';
import type { JobView } from '../../../src/protocol/index.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('a job of another tenant', () => {
  it('is to its viewers as if it did not exist, and is not cancelled by them', () => {
    const { queue, ...harness } = withJob();
    const waited: (JobView | null)[] = [];
    queue.wait('wait', 'ann-1', 60_000, 'bob', (view) => waited.push(view));
    expect([
      queue.read('get', 'ann-1', 'bob'),
      queue.read('ledger', 'ann-1', 'bob'),
      queue.do('cancel', 'ann-1', 'cancelled', 'bob'),
    ]).toEqual([null, null, null]);
    expect(waited).toEqual([null]);
    expect(harness.state()).toBe('leased');
  });

  it('is seen and cancelled by its own tenant, and by those who see all', () => {
    const { queue } = withJob();
    expect(queue.read('get', 'ann-1', 'ann')?.id).toBe('ann-1');
    expect(queue.read('get', 'ann-1', null)?.id).toBe('ann-1');
    expect(queue.read('ledger', 'ann-1', 'ann')?.steps.length).toBeGreaterThan(0);
    expect(queue.do('cancel', 'ann-1', 'cancelled', 'ann')).toMatchObject({ state: 'cancelled' });
  });

  it('keeps its id, with the words that another payload is answered with', () => {
    const harness = new QueueHarness();
    harness.submit({ id: 'x', tenant: 'ann', payload: '{"a":1}' });
    const [same, other, own] = harness.submit(
      { id: 'x', tenant: 'bob', payload: '{"a":1}' },
      { id: 'x', tenant: 'ann', payload: '{"a":2}' },
      { id: 'x', tenant: 'ann', payload: '{"a":1}' },
    );
    expect(same).toMatchObject({ ok: false, reason: 'conflict' });
    expect(same).toEqual(other);
    expect(own).toMatchObject({ ok: true, created: false });
  });
});

describe('a request of another tenant', () => {
  it('has no ledger for its viewers, cannot be cancelled by them, and says nothing of itself', () => {
    const harness = new QueueHarness();
    harness.worker('w');
    harness.request({ job_id: 'r', tenant: 'ann' });
    expect(harness.queue.read('ledger', 'r', 'bob')).toBeNull();
    expect(harness.queue.read('ledger', 'r', 'ann')?.steps.length).toBeGreaterThan(0);
    expect(harness.queue.do('cancel', 'r', 'cancelled', 'bob')).toBeNull();
    expect(harness.queue.read('status').running).toBe(1);
    expect(harness.submit({ id: 'r', tenant: 'bob' })).toMatchObject([
      { reason: 'conflict', message: 'job r exists with another payload: submit under a new id' },
    ]);
    expect(harness.queue.do('cancel', 'r', 'cancelled', 'ann')).toMatchObject({ state: 'cancelled' });
  });
});

function withJob() {
  const harness = new QueueHarness();
  harness.worker('w');
  harness.submit({ id: 'ann-1', tenant: 'ann' });
  return { queue: harness.queue, state: () => harness.state('ann-1') };
}
