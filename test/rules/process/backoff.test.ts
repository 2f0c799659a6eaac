import { expect, it } from 'vitest';
import { doubling } from '../../../src/process/backoff.ts';
import { sleep } from '../../../src/process/clock.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

it('doubles from the first pause to the longest, and stays there', () => {
  const pauses = [0, 1, 2, 3, 4, 100_000].map((failures) => doubling(100, 500, failures));
  expect(pauses).toEqual([100, 100, 200, 400, 500, 500]);
});

it('a pause is over with its time or its signal, and leaves no timer', async () => {
  const clock = new VirtualClock();
  const over = new AbortController();
  const pause = sleep(clock, 1000, over.signal);
  expect(clock.armed).toBe(1);
  over.abort();
  await pause;
  expect(clock.armed).toBe(0);
  await sleep(clock, 1000, over.signal);
  const [, ended] = await Promise.all([clock.advance(1000), sleep(clock, 1000).then(() => true)]);
  expect([ended, clock.armed]).toEqual([true, 0]);
});
