import type * as z from 'zod';
import type * as schemas from './scaling-schemas.ts';

/** The types of what the view of a fleet shows of machines that the scheduler launches (scaling-schemas.ts). */

/** The billionths in one US dollar. Spending is summed up in billionths, since sums of whole numbers are exact. */
export const NANODOLLARS = 1e9;

/** Costs grow with time alone; they are shown as of the last full step, so that rows do not change every second. */
export const COST_STEP_MS = 60_000;

export type LaunchState = Launch['state'];

export type FailureCause = NonNullable<Launch['cause']>;

/** The reasons why a launch failed, as scheduler, page and command line word them. */
const FAILURES: Record<FailureCause, string> = {
  no_capacity: 'the provider has no such machine free',
  /** The provider refuses a launch also where there is no money. */
  rejected: 'the provider refused the launch',
  vanished: 'the provider does not list the machine',
  start_deadline: 'it was not ready within its start deadline',
  /** The worker ended by itself; `exit_code` says whose fault it was. */
  exited: 'its worker ended',
  /** The worker was ready before. */
  lost: 'its worker was lost',
  preempted: 'its provider took the machine back',
};

/** Says why a launch failed: `its worker ended with exit code 9`. */
export function failureInWords({ cause, exit_code }: Pick<Launch, 'cause' | 'exit_code'>): string {
  const words = cause === null ? 'it failed for an unknown reason' : FAILURES[cause];
  return exit_code === null ? words : `${words} with exit code ${exit_code}`;
}

/** Says why a launch failed, and the cause: `its worker ended with exit code 9: There is no model "x"`. */
export function failureAndCause(launch: Pick<Launch, 'cause' | 'exit_code' | 'detail'>): string {
  const cause = launch.detail === null ? '' : causeIn(launch.detail);
  return cause === '' ? failureInWords(launch) : `${failureInWords(launch)}: ${cause}`;
}

/** The most characters of a cause. */
const MOST_OF_CAUSE = 300;

/**
 * Returns the one line of a provider's or a container's last words that says what was wrong: the first error in a log
 * of ours, else the last line. The page shows all lines.
 */
export function causeIn(detail: string): string {
  const lines = detail.split('\n').flatMap((line) => line.trim() || []);
  const errors = lines.flatMap((line) => errorOfLog(line) ?? []);
  const line = errors[0] ?? lines.at(-1) ?? '';
  const cut = line.length > MOST_OF_CAUSE ? `${line.slice(0, MOST_OF_CAUSE)}…` : line;
  return cut.replace(/[.\s]+$/, '');
}

/** Returns the message of a line of our log, for people or as JSON, where the line is an error, or null. */
function errorOfLog(line: string): string | null {
  const pretty = /^\[[\d:.]+\] (?:ERROR|FATAL): \S+: (.*)$/.exec(line)?.[1];
  // The other fields of a line follow its message as JSON.
  if (pretty !== undefined) return pretty.replace(/ \{".*\}$/, '');
  if (!line.startsWith('{')) return null;
  try {
    const { level, msg } = JSON.parse(line) as { level?: unknown; msg?: unknown };
    const isError = typeof level === 'number' ? level >= 50 : level === 'error' || level === 'fatal';
    return isError && typeof msg === 'string' ? msg.split('\n', 1)[0]! : null;
  } catch {
    return null;
  }
}

/** Returns whether the machine of a launch is gone: it costs nothing any more, and nothing changes the state. */
export function isFinal({ state }: Pick<Launch, 'state'>): boolean {
  return state === 'gone' || state === 'failed';
}

/** Returns whether the machine of a launch is on its way out: it gets no more jobs, and costs until it is gone. */
export function isEnding({ state }: Pick<Launch, 'state'>): boolean {
  return state === 'draining' || state === 'terminating';
}

export type Launch = z.infer<typeof schemas.Launch>;

export type LaunchRow = z.infer<typeof schemas.LaunchRow>;

export type ScalingControl = PoolScaling['control'];

export type PoolScaling = z.infer<typeof schemas.PoolScaling>;

/** A version of what a pool's workers are started with. */
export type PoolVersion = PoolScaling['versions'][number];

export type Rollout = NonNullable<PoolScaling['rollout']>;

export type ScalingSummary = z.infer<typeof schemas.ScalingSummary>;

export type ScalingProvider = ScalingSummary['providers'][number];

export type ScalingLauncher = ScalingSummary['launchers'][number];

/**
 * Returns people's name for a worker, the same wherever a worker is shown or spoken of: its id, or, for a machine that
 * the scheduler launched, the launch's own id, with which the long id ends.
 */
export function workerName(workerId: string): string {
  return /^wv-[a-z0-9]+-.+-([a-z0-9]{10})$/.exec(workerId)?.[1] ?? workerId;
}
