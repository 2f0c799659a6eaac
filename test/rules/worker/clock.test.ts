import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../../src/worker/clock.ts';

const DAY_MS = 86_400_000;

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('a deadline of thirty days passes after thirty days, not at once', () => {
  const passed = vi.fn();
  systemClock.setTimeout(passed, 30 * DAY_MS);
  vi.advanceTimersByTime(30 * DAY_MS - 1);
  expect(passed).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(passed).toHaveBeenCalledOnce();
});

test.each([0, 10, 25])('a timer of thirty days that is stopped on day %i never fires', (day) => {
  const passed = vi.fn();
  const timer = systemClock.setTimeout(passed, 30 * DAY_MS);
  vi.advanceTimersByTime(day * DAY_MS);
  systemClock.clearTimeout(timer);
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(30 * DAY_MS);
  expect(passed).not.toHaveBeenCalled();
});
