/** What a worker far away gets to finish its jobs, s, where its config does not say. */
export const GRACE_SECONDS = 60;
/** The supervisor takes at most 6.9 s more, as counted in deploy/kubernetes/worker.yaml; the rest is for slow nodes, s. */
const SPARE_SECONDS = 15;

/** Seconds between SIGTERM and SIGKILL for a container with this environment. */
export function secondsToEnd({ CASOLA_SHUTDOWN_GRACE_PERIOD: given }: Record<string, string>): number {
  const grace = given === undefined ? GRACE_SECONDS : Number(given);
  // What is no number is refused by the worker itself, in its own words.
  return Math.ceil(Number.isFinite(grace) ? grace : GRACE_SECONDS) + SPARE_SECONDS;
}
