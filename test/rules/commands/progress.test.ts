import { expect, it } from 'vitest';
import { progressText } from '../../../src/commands/progress.ts';

it.each([
  [0, 0, 0, '[------------------------------] 0/100  0.0/s'],
  [50, 0, 12.5, '[###############---------------] 50/100  12.5/s  4 s left'],
  [50, 2, 0.5, '[###############---------------] 50/100  0.5/s  2 min left  2 failed'],
  [1, 0, 0.001, '[------------------------------] 1/100  0.0/s  27.5 h left'],
  [100, 0, 20, '[##############################] 100/100  20.0/s'],
])('says that %i jobs of 100 are done', (done, failed, perSecond, text) => {
  expect(progressText(done, failed, 100, perSecond)).toBe(text);
});
