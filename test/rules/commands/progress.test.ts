import { expect, it } from 'vitest';
import { progressText } from '../../../src/commands/progress.ts';

it.each<[number, number, number | null, string]>([
  [10, 10, null, '[###---------------------------] 10/100  10 failed'],
  [0, 0, 0, '[------------------------------] 0/100  0/s'],
  [50, 0, 12.5, '[###############---------------] 50/100  12.5/s  4 s left'],
  [50, 2, 0.5, '[###############---------------] 50/100  0.50/s  1 min 40 s left  2 failed'],
  [1, 0, 0.001, '[------------------------------] 1/100  4/h  1 d 3 h left'],
  [100, 0, 20, '[##############################] 100/100  20.0/s'],
])('says that %i jobs of 100 are done', (done, failed, perSecond, text) => {
  expect(progressText(done, failed, 100, perSecond)).toBe(text);
});
