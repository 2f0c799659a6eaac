import type { LauncherClock } from './ports.ts';

const FIRST_MS = 1000;
const LONGEST_MS = 30_000;

/** How long to wait after so many failures in a row, ms: 1 s doubling to 30 s, a random half of it taken off. */
export function backoffMs(failures: number, random: () => number): number {
  const step = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 10));
  return step * (0.5 + 0.5 * random());
}

/** Ends early, and never rejects, when the signal is aborted. */
export function sleep(clock: LauncherClock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clock.clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = clock.setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}
