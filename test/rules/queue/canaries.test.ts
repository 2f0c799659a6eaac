import { describe, expect, it } from 'vitest';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const OLD = { instance: { version: 'old' } };
const NEW = { instance: { version: 'new' } };

const given = (worker: FakeConnection) => worker.frames('job').length;

function share(queue: QueueHarness, part: number | null): void {
  const shares = part === null ? [] : [{ config_id: 'cfg', version: 'new', share: part }];
  queue.queue.do('cordon', [], shares);
}

function end(queue: QueueHarness, worker: FakeConnection): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
}

describe('a new version that is tried', () => {
  it.each([
    [0.1, 'request'],
    [0.1, 'job'],
    [0.25, 'request'],
  ] as const)('gets its share of %d of every %s, and the first of them, within one', (part, kind) => {
    const queue = new QueueHarness();
    const old = queue.worker('old', { ...OLD, capacity: 1000 });
    const news = queue.worker('new', { ...NEW, capacity: 1000 });
    share(queue, part);
    for (let n = 1; n <= 100; n++) {
      queue[kind]();
      expect(given(news)).toBe(Math.ceil(part * n));
    }
    expect(given(old) + given(news)).toBe(100);
  });

  it('gets no more while the others have no slot, and its share of what goes on then', () => {
    const queue = new QueueHarness();
    const old = queue.worker('old', OLD);
    const news = queue.worker('new', { ...NEW, capacity: 100 });
    share(queue, 0.5);
    for (let n = 0; n < 8; n++) queue.job();
    expect([given(old), given(news)]).toEqual([1, 2]);
    for (let ended = 1; ended <= 3; ended++) {
      end(queue, old);
      expect(given(old)).toBe(ended + 1);
      expect(Math.abs(given(news) - given(old))).toBeLessThanOrEqual(1);
    }
  });

  it('gets all where no other takes jobs, and what was held back when its trial is over', () => {
    const queue = new QueueHarness();
    const old = queue.worker('old', OLD);
    const news = queue.worker('new', { ...NEW, capacity: 100 });
    share(queue, 0.1);
    for (let n = 0; n < 5; n++) queue.job();
    expect([given(old), given(news)]).toEqual([1, 1]);
    share(queue, null);
    expect(given(news)).toBe(4);
    share(queue, 0.1);
    queue.say(old, { type: 'drain' });
    queue.job();
    queue.job();
    expect(given(news)).toBe(6);
  });

  it.each(['drains', 'goes away', 'pauses'] as const)(
    'gets what was held back for a worker that %s, though it has nothing else to do',
    (how) => {
      const queue = new QueueHarness();
      const old = queue.worker('old', OLD);
      const news = queue.worker('new', { ...NEW, capacity: 100 });
      share(queue, 0.1);
      queue.job();
      end(queue, news);
      queue.job();
      queue.request({ wait_for_slot_ms: 60_000 });
      expect([given(old), given(news)]).toEqual([1, 1]);
      if (how === 'goes away') queue.drop(old);
      else queue.say(old, { type: how === 'drains' ? 'drain' : 'pause' });
      queue.advance(1.1);
      expect(given(news)).toBe(2);
    },
  );

  it('gets the rest of an answer that waits behind what is held back', () => {
    const queue = new QueueHarness();
    const old = queue.worker('old', { instance: { version: 'old', model_identity: 'a' } });
    const news = queue.worker('new', { instance: { version: 'new', model_identity: 'b' } });
    share(queue, 0.1);
    const waits = { wait_for_slot_ms: 60_000 };
    for (const job_id of ['first', 'second', 'behind']) queue.request({ job_id, ...waits });
    const facts = { worker_id: 'gone', tokens: 1, kept: 2, why: 'it broke', moves: 1, failures: 1 };
    const times = { given_ms_ago: 9, first_token_ms_ago: 5, newest_first_token_ms_ago: 5 };
    queue.request({ job_id: 'rest', ...waits, moved: { ...facts, ...times, model_identity: 'b' } });
    end(queue, news);
    expect([old, news].map((worker) => worker.frames('job').map(({ job_id }) => job_id))).toEqual([
      ['second'],
      ['first', 'rest'],
    ]);
  });

  it('gets a request that failed at the others at once, as if there was no trial', () => {
    const queue = new QueueHarness();
    queue.worker('old', { ...OLD, capacity: 100 });
    const news = queue.worker('new', { ...NEW, capacity: 100 });
    share(queue, 0.1);
    queue.request();
    const earlier = { attempts: 1, fence_token: 0, elapsed_ms: 5, failed_at: ['old'] };
    queue.request({ wait_for_slot_ms: 60_000, earlier });
    expect(given(news)).toBe(2);
  });

  it('goes on with what is counted when it is told again', () => {
    const queue = new QueueHarness();
    queue.worker('old', { ...OLD, capacity: 100 });
    const news = queue.worker('new', { ...NEW, capacity: 100 });
    for (let n = 0; n < 20; n++) {
      share(queue, 0.1);
      queue.request();
    }
    expect(given(news)).toBe(2);
  });

  it('changes nothing for other pools and for the rest of an answer', () => {
    const queue = new QueueHarness();
    const old = queue.worker('old', {
      ...OLD,
      capacity: 100,
      instance: { version: 'old', model_identity: 'a' },
    });
    const news = queue.worker('new', {
      ...NEW,
      capacity: 100,
      instance: { version: 'new', model_identity: 'b' },
    });
    share(queue, 0.1);
    queue.request();
    const facts = { worker_id: 'gone', tokens: 1, kept: 2, why: 'it broke', moves: 1, failures: 1 };
    const times = { given_ms_ago: 9, first_token_ms_ago: 5, newest_first_token_ms_ago: 5 };
    for (let n = 0; n < 3; n++) queue.request({ moved: { ...facts, ...times, model_identity: 'b' } });
    expect([given(old), given(news)]).toEqual([0, 4]);
  });
});
