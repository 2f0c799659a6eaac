import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

const START = { fence_token: 0, taken: 0 };
const cursorOf = (queue: QueueHarness, id: string) =>
  queue.queue.read('outputOf', queue.queue.read('get', id, null)!).cursor;

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
