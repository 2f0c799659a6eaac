/**
 * The way down of a container after a signal: what comes when the grace of its running jobs is over, in this order, ms.
 * Each step ends when the sum up to it is reached, counted from the end of the grace, so that one that is done early
 * leaves its time to those after it. With the default grace of 5 s all of them fit the 10 s of `docker stop`.
 */
const STEPS = {
  /** The queue acknowledges results and releases. */
  acknowledgements: 1500,
  /** The worker's sockets are closed, and its last heartbeat is sent, side by side. */
  goodbye: 250,
  /** Its last spans. */
  spans: 150,
  /** Its last log lines. */
  worker_lines: 250,
  /** For a slow machine, before the supervisor kills a worker that has not ended. */
  spare: 350,
  /** From SIGTERM to SIGKILL. */
  engine: 2000,
  /** The supervisor's last log lines. */
  supervisor_lines: 400,
} as const;

/** What running jobs have by default, s. */
export const GRACE_SECONDS = 5;
/** What a process gets to be gone after SIGKILL, ms: longer than that it is stuck in the kernel. */
export const KILL_MS = 1000;
/** What last lines and last spans get where a process ends without a signal, ms. */
export const LAST_WORDS_MS = 800;

export type Step = keyof typeof STEPS;

/** When a step has to be over, ms after the signal. @param graceMs of the running jobs */
export function endOfStep(step: Step, graceMs = 0): number {
  const names = Object.keys(STEPS) as Step[];
  return names.slice(0, names.indexOf(step) + 1).reduce((sum, name) => sum + STEPS[name], graceMs);
}

/** When the supervisor kills a worker that has not ended, ms after the end of the grace. */
export const WORKER_MARGIN_MS = endOfStep('spare');
/** What the engine has from SIGTERM to SIGKILL, ms. */
export const ENGINE_STOP_MS = STEPS.engine;

/** From the first signal to the exit, if nothing has to be killed, ms. */
export function wayDownMs(graceMs: number): number {
  return endOfStep('supervisor_lines', graceMs);
}

/** The same where worker and engine both have to be killed. */
export function longestWayDownMs(graceMs: number): number {
  return wayDownMs(graceMs) + 2 * KILL_MS;
}
