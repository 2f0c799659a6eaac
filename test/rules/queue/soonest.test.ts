import { describe, expect, it } from 'vitest';
import { WaitingCalls } from '../../../src/queue/projections/waiters.ts';
import { Soonest } from '../../../src/queue/state/waiting-jobs.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('the soonest of many times', () => {
  it('is found once, lowered by new ones, and found anew when what it depends on has changed', () => {
    const soonest = new Soonest();
    let looks = 0;
    const find = (at: number) => () => {
      looks += 1;
      return at;
    };
    expect(soonest.get(1, find(50))).toBe(50);
    soonest.lower(30);
    soonest.lower(40);
    expect(soonest.get(1, find(99))).toBe(30);
    expect(looks).toBe(1);
    expect(soonest.get(2, find(70))).toBe(70);
    soonest.forget();
    expect(soonest.get(2, find(80))).toBe(80);
  });
});

describe('those who wait for a job', () => {
  it('hear it when it settles or when their time is over, each once', () => {
    const waiters = new WaitingCalls();
    const heard: string[] = [];
    const wait = (job: string, until: number) =>
      waiters.add(job, { until, answer: () => heard.push(`${job}:${until}`) });
    expect(waiters.soonest).toBeNull();
    wait('a', 10);
    wait('a', 30);
    wait('b', 20);
    expect(waiters.soonest).toBe(10);
    waiters.expire(10, () => null);
    expect([heard, waiters.soonest]).toEqual([['a:10'], 20]);
    waiters.tell('b', () => null);
    waiters.expire(20, () => null);
    expect([heard, waiters.soonest]).toEqual([['a:10', 'b:20'], 30]);
    waiters.expire(30, () => null);
    expect([heard, waiters.soonest]).toEqual([['a:10', 'b:20', 'a:30'], null]);
  });
});

describe('the next tick', () => {
  it('comes when the first waiting caller is to be told, and sooner when its last worker leaves', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request();
    const [waiting, short] = [
      queue.request({ wait_for_slot_ms: 1500 }),
      queue.request({ wait_for_slot_ms: 1000, wait_for_worker_ms: 500 }),
    ];
    expect(queue.queue.nextTick()).toBe(queue.nowMs + 1000);
    queue.say(worker, { type: 'drain' });
    expect(queue.queue.nextTick()).toBe(queue.nowMs);
    queue.advance(0);
    expect([waiting, short].map(([answer]) => answer?.kind)).toEqual(['refused', undefined]);
    queue.advance(0.5);
    expect(short).toMatchObject([{ kind: 'refused', reason: 'no_worker' }]);
  });
});
