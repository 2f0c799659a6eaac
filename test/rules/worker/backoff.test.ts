import { expect, test } from 'vitest';
import { backoffMs, restartSpreadMs } from '../../../src/worker/session/reconnecting-socket.ts';

test('waits double from one second to one minute', () => {
  const waits = [0, 1, 2, 3, 4, 5, 6, 7, 1000].map((failures) => backoffMs(failures, () => 0));
  expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

test('up to thirty percent is added at random', () => {
  expect(backoffMs(0, () => 0.5)).toBe(1150);
  expect(backoffMs(10, () => 0.9999)).toBeLessThan(78_000);
});

test('after a restart of the queue the workers spread over one second', () => {
  expect([0, 0.5].map((random) => restartSpreadMs(() => random))).toEqual([0, 500]);
});
