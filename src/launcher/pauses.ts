import { doubling } from '../process/backoff.ts';

const FIRST_MS = 1000;
const LONGEST_MS = 30_000;

/** Returns the pause after so many failures in a row, ms: 1 s doubling to 30 s, less a random half. */
export function backoffMs(failures: number, random: () => number): number {
  return doubling(FIRST_MS, LONGEST_MS, failures) * (0.5 + 0.5 * random());
}
