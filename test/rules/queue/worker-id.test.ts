import { describe, expect, it } from 'vitest';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const ann = { name: 'ann', worker_ids: null, config_id: null };
const bob = { name: 'bob', worker_ids: null, config_id: null };

function denied(connection: FakeConnection): number | undefined {
  expect(connection.frames('registered')).toEqual([]);
  expect(connection.frames('job')).toEqual([]);
  expect(connection.frames('error')).toHaveLength(1);
  return connection.closed?.code;
}

describe('a token that is bound to worker ids', () => {
  const runpod = { name: 'runpod', worker_ids: 'runpod-*', config_id: null };

  it('registers workers of those ids', () => {
    const queue = new QueueHarness();
    expect(queue.worker('runpod-7', {}, runpod).frames('registered')).toHaveLength(1);
  });

  it('registers no other, and takes nothing from the one that has the id', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('vast-1', {}, ann);
    expect(denied(queue.worker('vast-1', {}, runpod))).toBe(4403);
    queue.job();
    expect(holder.frames('job')).toHaveLength(1);
  });
});

it('a token that is bound to a pool registers a worker of that pool alone', () => {
  const launched = { name: 'launch l1', worker_ids: 'wv-1', config_id: 'm' };
  const queue = new QueueHarness();
  expect(denied(queue.worker('wv-1', { config_id: 'other' }, launched))).toBe(4403);
  expect(queue.worker('wv-1', { config_id: 'm' }, launched).frames('registered')).toHaveLength(1);
});

describe('a worker id that two machines have, such as a host name that both were given', () => {
  const on = (machine_id: string, boot_id: string) => ({ instance: { machine_id, boot_id } });

  it('stays with the one that is connected and well, whatever token both have', () => {
    for (const token of [null, ann]) {
      const queue = new QueueHarness();
      const holder = queue.worker('gpu', on('one', 'a'), token);
      const newcomer = queue.worker('gpu', on('two', 'b'), token);
      expect(denied(newcomer)).toBe(4409);
      expect(newcomer.frames('error')[0]?.message).toContain('CASOLA_INSTANCE_ID');
      expect(holder.closed).toBeNull();
      queue.job();
      expect(holder.frames('job')).toHaveLength(1);
    }
  });

  it.each([
    ['is started again on its machine', on('one', 'b')],
    ['dials again', on('one', 'a')],
    ['is of an older version, which tells no machine', { instance: { boot_id: 'b' } }],
  ])('is taken over at once by a worker that %s', (_case, again) => {
    const queue = new QueueHarness();
    const holder = queue.worker('gpu', on('one', 'a'));
    expect(queue.worker('gpu', again).frames('registered')).toHaveLength(1);
    expect(holder.closed?.code).toBe(4409);
  });

  it('is free for another machine once its worker is gone, or has not been heard of', () => {
    const queue = new QueueHarness();
    queue.drop(queue.worker('gpu', on('one', 'a')));
    const second = queue.worker('gpu', on('two', 'b'));
    expect(second.frames('registered')).toHaveLength(1);
    second.goSilent();
    queue.advance(20);
    expect(denied(queue.worker('gpu', on('three', 'c')))).toBe(4409);
    queue.advance(20);
    expect(queue.worker('gpu', on('three', 'd')).frames('registered')).toHaveLength(1);
  });

  it('stays with it though the queue hibernates', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('gpu', on('one', 'a'));
    queue.hibernate();
    expect(denied(queue.worker('gpu', on('two', 'b')))).toBe(4409);
    expect(holder.closed).toBeNull();
  });
});

describe('a worker id that is in use', () => {
  it('is taken over by the same token, as by a worker that dials again', () => {
    const queue = new QueueHarness();
    const older = queue.worker('w', {}, ann);
    const newer = queue.worker('w', {}, ann);
    expect(newer.frames('registered')).toHaveLength(1);
    expect(older.closed?.code).toBe(4409);
  });

  it('is not taken over by another token: the newcomer is closed, the holder stays', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('w', {}, ann);
    const id = queue.job();
    expect(denied(queue.worker('w', {}, bob))).toBe(4409);
    expect(holder.closed).toBeNull();
    const { fence_token } = holder.lastJob();
    queue.say(holder, { type: 'job_result', job_id: id, fence_token, result: {} });
    expect(queue.state(id)).toBe('succeeded');
  });

  it.each(['hibernates', 'starts again'] as const)(
    'stays its token’s within the grace, though the queue %s',
    (how) => {
      const queue = new QueueHarness();
      const holder = queue.worker('w', {}, ann);
      const id = queue.job();
      const { fence_token } = holder.lastJob();
      queue.drop(holder);
      if (how === 'hibernates') queue.hibernate();
      else queue.restart();
      const jobs = [{ job_id: id, fence_token }];
      expect(denied(queue.worker('w', { jobs }, bob))).toBe(4409);
      const [registered] = queue.worker('w', { jobs }, ann).frames('registered');
      expect(registered).toMatchObject({ resumed: [id] });
    },
  );

  it('stays its token’s while a request waits for its answer', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('w', {}, ann);
    queue.request();
    queue.drop(holder);
    expect(denied(queue.worker('w', {}, bob))).toBe(4409);
  });

  it('is free for another token once its worker is gone and holds nothing', () => {
    const queue = new QueueHarness();
    queue.drop(queue.worker('w', {}, ann));
    expect(queue.worker('w', {}, bob).frames('registered')).toHaveLength(1);
  });
});
