import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('registering', () => {
  it('tells leases and where to dial the answer socket', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w 1');
    const [registered] = worker.frames('registered');
    expect(registered).toMatchObject({
      protocol: 1,
      lease_seconds: 30,
      renew_after_seconds: 24,
    });
    expect(registered?.answers_url).toMatch(/^answers\?queue_id=q&worker_id=w\+1&session_id=session-\d+$/);
  });

  it('sends a base worker nothing it does not know', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    queue.job({ payload: '{"messages":[{"role":"user","content":"hi"}]}' });
    expect(worker.sent).toHaveLength(1);
    expect(Object.keys(worker.lastJob()).sort()).toEqual(
      ['config_id', 'fence_token', 'job_id', 'mode', 'payload', 'result_upload_url', 'type'].sort(),
    );
    expect(worker.lastJob().payload).toMatchObject({ task: 'openai/chat-completion' });
  });

  it('lets the newer connection of a worker id win, and does not lose it when the older one closes', () => {
    const queue = new QueueHarness();
    const older = queue.worker('w');
    const newer = queue.worker('w');
    expect(older.closed).toMatchObject({ code: 4409 });
    queue.drop(older);
    const id = queue.job();
    expect(newer.lastJob().job_id).toBe(id);
  });

  it('is refused as a second worker on one connection, and the first goes on', () => {
    const queue = new QueueHarness();
    const connection = queue.baseWorker('first');
    queue.say(connection, { type: 'register', worker_id: 'second', config_id: 'cfg', capacity: 1 });
    expect(connection.frames('error')).toMatchObject([{ message: expect.stringContaining('"first"') }]);
    expect(queue.queue.read('sessions').map(({ worker_id }) => worker_id)).toEqual(['first']);
    queue.say(connection, { type: 'register', worker_id: 'first', config_id: 'cfg', capacity: 2 });
    expect(queue.queue.read('status')).toMatchObject({ workers: 1, slots: 2 });
    queue.drop(connection);
    expect(queue.state(queue.job())).toBe('pending');
  });

  it('answers each frame that it cannot read with one error that says what is wrong, and goes on', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const stranger = queue.connect();
    queue.say(worker, '{"type":');
    queue.say(worker, '[1,2]');
    queue.say(worker, { type: 'job_result', job_id: 5, result: {} });
    queue.say(stranger, { type: 'drain' });
    queue.say(stranger, { type: 'dance' });
    const messages = [...worker.frames('error'), ...stranger.frames('error')].map((frame) =>
      String(frame.message),
    );
    expect(messages[0]).toContain('not JSON');
    // A list is a message of several frames.
    expect(messages.slice(1, 3)).toEqual([
      expect.stringContaining('not 1'),
      expect.stringContaining('not 2'),
    ]);
    expect(messages[3]).toContain('job_id');
    expect(messages[4]).toContain('register first');
    expect(messages[5]).toContain('dance');
    expect(messages).toHaveLength(6);
    expect(queue.state(queue.job())).toBe('leased');
  });

  it('ignores frame types it does not know from a worker that agreed on a protocol', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.say(worker, { type: 'from_the_future' });
    expect(worker.frames('error')).toEqual([]);
  });

  it('tells the log of unknown frame types once each, shortened, and of a hundred at most', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    for (const _ of [1, 2]) queue.say(worker, { type: 'x'.repeat(100_000) });
    for (let n = 0; n < 1000; n++) queue.say(worker, { type: `unknown ${n}` });
    const told = queue.logLines.filter(({ message }) => message.includes('type'));
    expect(told).toHaveLength(100);
    expect(told[0]?.fields).toEqual({ type: 'x'.repeat(64) });
  });
});

describe('a worker that is back', () => {
  it('loses no lease and restarts no job when the worker is back within the grace', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    queue.drop(worker);
    queue.advance(5);
    const back = queue.worker('w', { jobs: [{ job_id: id, fence_token }] });
    expect(back.frames('registered')[0]).toMatchObject({ resumed: [id], revoked: [] });
    expect(back.frames('job')).toEqual([]);
    queue.advance(20);
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'leased',
      attempt_errors: [],
      fence_token,
    });
  });

  it('moves the job when the worker is not back within the grace, long before its lease would end', () => {
    const queue = new QueueHarness();
    const gone = queue.worker('gone');
    const id = queue.job();
    const other = queue.worker('other');
    queue.drop(gone);
    queue.advance(9);
    expect(other.frames('job')).toEqual([]);
    queue.advance(5);
    expect(other.lastJob().job_id).toBe(id);
  });

  it('releases uncharged what the same process never received, and charges what another process lost', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 3 });
    const cut = queue.worker('w');
    expect(cut.lastJob()).toMatchObject({ job_id: id, attempt: 1 });
    const restarted = queue.worker('w', { instance: { boot_id: 'another' } });
    expect(restarted.frames('job')).toEqual([]);
    queue.advance(2);
    expect(restarted.lastJob()).toMatchObject({ job_id: id, attempt: 2 });
    expect(queue.queue.read('get', id, null)?.attempt_errors).toMatchObject([{ code: 'worker_died' }]);
    expect(worker.closed).not.toBeNull();
  });

  it('revokes at reconnect what was given to another worker or cancelled meanwhile', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const [moved, cancelled] = [queue.job(), queue.job()];
    const held = worker.frames('job').map(({ job_id, fence_token }) => ({ job_id, fence_token }));
    queue.drop(worker);
    queue.queue.do('cancel', cancelled, 'cancelled', null);
    queue.advance(11);
    queue.worker('other');
    queue.advance(2);
    const back = queue.worker('w', { capacity: 2, jobs: held });
    expect(back.frames('registered')[0]).toMatchObject({
      resumed: [],
      revoked: [{ job_id: moved }, { job_id: cancelled }],
    });
  });

  it('revokes what the queue failed for good while the worker was gone, and fills its slot', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    const jobs = [{ job_id: id, fence_token: worker.lastJob().fence_token }];
    queue.drop(worker);
    queue.advance(12);
    expect(queue.state(id)).toBe('failed');
    const next = queue.job();
    const back = queue.worker('w', { jobs });
    expect(back.frames('registered')[0]).toMatchObject({ resumed: [], revoked: [{ job_id: id }] });
    expect(back.lastJob().job_id).toBe(next);
    // Had the frame not told it so, the renewal would.
    queue.say(back, { type: 'renew', jobs });
    expect(back.frames('renewed').at(-1)).toMatchObject({ lost: jobs });
  });

  it('neither revokes nor loses what the worker itself settled and has no acknowledgement of', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const [good, bad] = [queue.job(), queue.job()];
    const jobs = worker.frames('job').map(({ job_id, fence_token }) => ({ job_id, fence_token }));
    queue.say(worker, { type: 'job_result', ...jobs[0], result: {} });
    queue.say(worker, { type: 'job_error', ...jobs[1], error: 'too long', retryable: false });
    expect([queue.state(good), queue.state(bad)]).toEqual(['succeeded', 'failed']);
    const back = queue.worker('w', { capacity: 2, jobs });
    expect(back.frames('registered')[0]).toMatchObject({ resumed: [], revoked: [] });
    queue.say(back, { type: 'renew', jobs });
    expect(back.frames('renewed').at(-1)).toMatchObject({ lost: [] });
  });

  it('remembers its workers and what they run over a hibernation', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    queue.hibernate();
    queue.submit({}, {});
    expect(worker.frames('job')).toHaveLength(2);
    queue.say(worker, { type: 'job_result', job_id: id, fence_token, result: {} });
    expect(queue.state(id)).toBe('succeeded');
    expect(worker.frames('job')).toHaveLength(3);
    expect(queue.queue.read('sessions')).toMatchObject([
      { worker_id: 'w', state: 'ready', models: ['tiny'] },
    ]);
  });
});
