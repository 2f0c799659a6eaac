import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

const tokenOf = (name: string) => ({ name, sha256: name, worker_ids: null, config_id: null });

describe('a token that is gone', () => {
  it('closes both sockets of its workers, which may dial again, and of no others', () => {
    const queue = new QueueHarness();
    const mine = queue.worker('mine', {}, tokenOf('a'));
    const theirs = queue.worker('theirs', {}, tokenOf('b'));
    queue.queue.do('endTokens', [{ name: 'a', sha256: 'a', isGone: true }]);
    expect([mine.closed?.code, theirs.closed]).toEqual([1012, null]);
    expect(queue.closedAnswers).toEqual(['mine']);
    // What its peer says on the socket that was closed is not heard.
    queue.say(mine, { type: 'load', slots_free: 5, waiting: 0, running: 0 });
    queue.job();
    expect([mine.frames('job'), theirs.frames('job').length]).toEqual([[], 1]);
  });

  it('ends the requests of its callers, waiting and running, and leaves stored jobs and others alone', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 2 });
    const running = queue.request({ job_id: 'mine', token_name: 'a' });
    const others = queue.request({ job_id: 'theirs', token_name: 'b' });
    const waiting = queue.request({ job_id: 'waits', token_name: 'a', wait_for_slot_ms: 60_000 });
    const stored = queue.job({ token_name: 'a' });
    expect([running.length, others.length, waiting.length]).toEqual([1, 1, 0]);
    queue.queue.do('endTokens', [{ name: 'a', sha256: 'a', isGone: true }]);
    expect(waiting).toMatchObject([{ kind: 'refused', reason: 'cancelled' }]);
    expect(queue.broken.map(({ reason }) => reason.message)).toEqual([
      'the token "a" was revoked or rotated while this request ran',
    ]);
    // The slot of the request that ended.
    expect(queue.state(stored)).toBe('leased');
  });

  it('is not gone where its entry has only changed: its requests go on', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', {}, tokenOf('a'));
    queue.request({ job_id: 'mine', token_name: 'a' });
    queue.queue.do('endTokens', [{ name: 'a', sha256: 'a', isGone: false }]);
    expect([worker.closed?.code, queue.broken]).toEqual([1012, []]);
  });
});

describe('a token that expires', () => {
  const expiring = (queue: QueueHarness, seconds: number) => ({
    ...tokenOf('a'),
    expires_at: queue.nowMs + seconds * 1000,
  });

  it('closes the sockets of its workers then', () => {
    const queue = new QueueHarness();
    const [early, late, never] = [
      queue.worker('early', {}, expiring(queue, 10)),
      queue.worker('late', {}, expiring(queue, 20)),
      queue.worker('never', {}, tokenOf('b')),
    ];
    queue.advance(11);
    expect([early.closed?.code, late.closed, never.closed]).toEqual([1012, null, null]);
    queue.advance(10);
    expect([late.closed?.code, never.closed]).toEqual([1012, null]);
  });

  it('registers nobody after that on a socket from before', () => {
    const queue = new QueueHarness();
    const late = queue.worker('late', {}, expiring(queue, 0));
    expect([late.closed?.code, late.frames('registered')]).toEqual([1012, []]);
  });
});
