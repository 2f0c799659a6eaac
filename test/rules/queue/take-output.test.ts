import { expect, it } from 'vitest';
import type { FollowedJob } from '../../../src/queue/rpc.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const START = { fence_token: 0, taken: 0 };
function cursorOf({ queue }: QueueHarness, id: string) {
  let followed: FollowedJob | null = null;
  queue.wait('follow', id, 0, 0, null, (answer) => {
    followed = answer;
  });
  return (followed as FollowedJob | null)?.cursor;
}

it('each piece is taken once, whoever asks, and a restart changes nothing', () => {
  const queue = new QueueHarness();
  const id = queue.job();
  expect(cursorOf(queue, id)).toEqual(START);
  const two = { fence_token: 7, taken: 2 };
  expect(queue.queue.do('takeOutput', id, START, two, null)).toBe(true);
  expect(queue.queue.do('takeOutput', id, START, { fence_token: 7, taken: 3 }, null)).toBe(false);
  queue.restart();
  expect(cursorOf(queue, id)).toEqual(two);
  expect(queue.queue.do('takeOutput', id, two, { fence_token: 7, taken: 3 }, null)).toBe(true);
});

it('another tenant’s job does not exist', () => {
  const queue = new QueueHarness();
  const id = queue.job({ tenant: 'a' });
  expect(queue.queue.do('takeOutput', id, START, { fence_token: 1, taken: 1 }, 'b')).toBe(false);
  expect(queue.queue.do('takeOutput', 'ghost', START, { fence_token: 1, taken: 1 }, null)).toBe(false);
});

it('a job that is tried again has its output from the beginning', () => {
  const queue = new QueueHarness();
  const id = queue.job({ deadline_seconds: 1 });
  queue.queue.do('takeOutput', id, START, { fence_token: 7, taken: 2 }, null);
  queue.advance(3);
  queue.queue.do('retry', id, null);
  expect(cursorOf(queue, id)).toEqual(START);
});
