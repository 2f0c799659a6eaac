/**
 * The steps in which a container ends after a signal, once the grace of its running jobs is over, in this order, ms.
 * Each step ends at the latest when the sum up to it is reached, counted from the end of the grace, so that a step that
 * is done early leaves its time to the later ones. With the default grace of 5 s all of them fit the 10 s of `docker
 * stop`.
 */
const STEPS = {
  /** The queue acknowledges results and releases. */
  acknowledgements: 1500,
  /** The worker's sockets are closed while its last heartbeat is sent. */
  goodbye: 250,
  /** The worker sends its last spans. */
  spans: 150,
  /** The worker sends its last log lines. */
  worker_lines: 250,
  /** A slow machine has this reserve before the supervisor kills a worker that has not ended. */
  spare: 350,
  /** The engine ends, from SIGTERM to SIGKILL. */
  engine: 2000,
  /** The supervisor sends its last log lines. */
  supervisor_lines: 400,
} as const;

/** The default grace of running jobs, s. */
export const GRACE_SECONDS = 5;
/** A process that still exists this many ms after SIGKILL is stuck in the kernel. */
export const KILL_MS = 1000;
/** A process that ends without a signal may take this many ms for its last lines and spans. */
export const LAST_WORDS_MS = 800;

export type Step = keyof typeof STEPS;

/** Returns the time by which a step has to be over, ms after the signal. @param graceMs the grace of running jobs */
export function endOfStep(step: Step, graceMs = 0): number {
  const names = Object.keys(STEPS) as Step[];
  return names.slice(0, names.indexOf(step) + 1).reduce((sum, name) => sum + STEPS[name], graceMs);
}

/** The supervisor kills a worker that has not ended this many ms after the end of the grace. */
export const WORKER_MARGIN_MS = endOfStep('spare');
/** The engine has this many ms from SIGTERM to SIGKILL. */
export const ENGINE_STOP_MS = STEPS.engine;

/** Returns the time from the first signal to the exit if nothing has to be killed, ms. */
export function wayDownMs(graceMs: number): number {
  return endOfStep('supervisor_lines', graceMs);
}

/** Returns the time from the first signal to the exit if worker and engine both have to be killed, ms. */
export function longestWayDownMs(graceMs: number): number {
  return wayDownMs(graceMs) + 2 * KILL_MS;
}
