import { longestWayDownMs } from '../process/way-down.ts';

/** The seconds that a worker on a remote machine has to finish its jobs, where its pool does not say. */
export const FAR_GRACE_SECONDS = 60;
/** Spare time for slow nodes, ms. */
const SPARE_MS = 8000;

/** Returns the seconds between SIGTERM and SIGKILL for a container with this environment. */
export function secondsToEnd({ CASOLA_SHUTDOWN_GRACE_PERIOD: given }: Record<string, string>): number {
  const grace = given === undefined ? FAR_GRACE_SECONDS : Number(given);
  // The worker itself refuses a value that is no number, in its own words.
  const graceMs = 1000 * (Number.isFinite(grace) ? grace : FAR_GRACE_SECONDS);
  return Math.ceil((longestWayDownMs(graceMs) + SPARE_MS) / 1000);
}
