import { doubling } from '../../process/backoff.ts';

const FIRST_MS = 1000;
const LONGEST_MS = 60_000;
const JITTER = 0.3;
const RESTART_SPREAD_MS = 1000;

/**
 * Returns the wait before the next dial, ms: 1 s doubling to 60 s, up to 30 % more at random (the base protocol's
 * figures).
 * @param failures connections that failed in a row before this one; 0 for the first
 */
export function backoffMs(failures: number, random: () => number): number {
  return doubling(FIRST_MS, LONGEST_MS, failures + 1) * (1 + JITTER * random());
}

/**
 * Returns the wait after a close 1012, ms: short, but spread, so that a thousand workers do not arrive at one moment.
 */
export function restartSpreadMs(random: () => number): number {
  return RESTART_SPREAD_MS * random();
}
