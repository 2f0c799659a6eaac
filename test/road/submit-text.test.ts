import { afterAll, beforeAll, expect, it } from 'vitest';
import { cli, type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** `worker-vllm submit --text`, typed by a user. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'w');
});
afterAll(tearDown);

async function submitted(...more: string[]): Promise<string> {
  const child = cli(['submit', 'Say hello.', '--url', queue.url, ...more]);
  expect((await child.exited).code).toBe(0);
  return child.output();
}

it('prints the answer as it reads, and nothing of its JSON', async () => {
  const whole = await submitted();
  expect(whole).toContain('"choices"');
  const text = await submitted('--text');
  expect(text.trim()).not.toBe('');
  expect(text).not.toContain('choices');
  expect(text).not.toContain('"');
});
