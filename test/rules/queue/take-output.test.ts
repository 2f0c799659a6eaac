import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

const START = { fence_token: 0, taken: 0 };
const cursorOf = (queue: QueueHarness, id: string) =>
  queue.queue.jobs.outputOf(queue.queue.jobs.get(id)!).cursor;

it('each piece is taken once, whoever asks, and a restart changes nothing', () => {
  const queue = new QueueHarness();
  const id = queue.job();
  expect(cursorOf(queue, id)).toEqual(START);
  const two = { fence_token: 7, taken: 2 };
  expect(queue.queue.jobs.takeOutput(id, START, two)).toBe(true);
  expect(queue.queue.jobs.takeOutput(id, START, { fence_token: 7, taken: 3 })).toBe(false);
  queue.restart();
  expect(cursorOf(queue, id)).toEqual(two);
  expect(queue.queue.jobs.takeOutput(id, two, { fence_token: 7, taken: 3 })).toBe(true);
});

it('another tenant’s job does not exist', () => {
  const queue = new QueueHarness();
  const id = queue.job({ tenant: 'a' });
  expect(queue.queue.jobs.takeOutput(id, START, { fence_token: 1, taken: 1 }, 'b')).toBe(false);
  expect(queue.queue.jobs.takeOutput('ghost', START, { fence_token: 1, taken: 1 })).toBe(false);
});

it('a job that is tried again has its output from the beginning', () => {
  const queue = new QueueHarness();
  const id = queue.job({ deadline_seconds: 1 });
  queue.queue.jobs.takeOutput(id, START, { fence_token: 7, taken: 2 });
  queue.advance(3);
  queue.queue.retry(id);
  expect(cursorOf(queue, id)).toEqual(START);
});
