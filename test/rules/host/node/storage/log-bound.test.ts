import { expect, it } from 'vitest';
import { LOG_LIMITS, LogBound } from '../../../../../src/host/node/storage/log-bound.ts';

it('copies again after a copy that is complete but has not cut the file, since a write came in between', async () => {
  let copies = 0;
  const bound = new LogBound(LOG_LIMITS, {
    bytes: () => 0,
    copy: async () => {
      copies += 1;
      return { isWhole: true };
    },
    copyNow: () => true,
    commit: () => {},
    failed: () => {},
    now: () => performance.now(),
  });
  await bound.copyAll(() => copies === 2);
  expect(copies).toBe(2);
});
