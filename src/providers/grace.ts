import { longestWayDownMs } from '../process/way-down.ts';

/** What a worker far away gets to finish its jobs, s, where its pool does not say. */
export const FAR_GRACE_SECONDS = 60;
/** For slow nodes. */
const SPARE_MS = 8000;

/** Seconds between SIGTERM and SIGKILL for a container with this environment. */
export function secondsToEnd({ CASOLA_SHUTDOWN_GRACE_PERIOD: given }: Record<string, string>): number {
  const grace = given === undefined ? FAR_GRACE_SECONDS : Number(given);
  // What is no number is refused by the worker itself, in its own words.
  const graceMs = 1000 * (Number.isFinite(grace) ? grace : FAR_GRACE_SECONDS);
  return Math.ceil((longestWayDownMs(graceMs) + SPARE_MS) / 1000);
}
