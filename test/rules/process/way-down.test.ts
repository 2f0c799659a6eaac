import { expect, it } from 'vitest';
import {
  ENGINE_STOP_MS,
  endOfStep,
  longestWayDownMs,
  type Step,
  WORKER_MARGIN_MS,
  wayDownMs,
} from '../../../src/process/way-down.ts';
import { secondsToEnd } from '../../../src/providers/driver.ts';

it('the steps of the way down add up: a worker ends before it is killed, the container within docker stop', () => {
  const ofWorker: Step[] = ['acknowledgements', 'goodbye', 'spans', 'worker_lines'];
  const ends = ofWorker.map((step) => endOfStep(step, 5000));
  expect(ends).toEqual([...ends].sort((a, b) => a - b));
  expect(ends.at(-1)).toBeLessThanOrEqual(5000 + WORKER_MARGIN_MS - 300);
  expect(endOfStep('engine', 5000)).toBe(5000 + WORKER_MARGIN_MS + ENGINE_STOP_MS);
  expect(wayDownMs(5000)).toBeGreaterThan(endOfStep('engine', 5000));
  expect(wayDownMs(5000)).toBeLessThan(10_000);
});

it.each([0, 5, 60, 300.5])(
  'a platform kills no worker with a grace of %d s that is still on its way',
  (grace) => {
    const killedAfter = secondsToEnd({ CASOLA_SHUTDOWN_GRACE_PERIOD: String(grace) });
    expect(killedAfter).toBeGreaterThan(longestWayDownMs(grace * 1000) / 1000 + 5);
  },
);
