import type * as z from 'zod';
import type * as schemas from './scaling-schemas.ts';

/** What the view of a fleet shows of machines that the scheduler launches, as scaling-schemas.ts says. */

export type LaunchState = Launch['state'];

export type FailureCause = NonNullable<Launch['cause']>;

/** Why a launch failed, as scheduler, page and command line say it. */
const FAILURES: Record<FailureCause, string> = {
  no_capacity: 'the provider has no such machine free',
  /** Also where there is no money. */
  rejected: 'the provider refused the launch',
  vanished: 'the provider does not list the machine',
  start_deadline: 'it was not ready within its start deadline',
  /** By itself; `exit_code` says whose fault it was. */
  exited: 'its container ended',
  /** It was ready before. */
  lost: 'its worker was lost',
};

/** `its container ended with exit code 9` */
export function failureInWords({ cause, exit_code }: Pick<Launch, 'cause' | 'exit_code'>): string {
  const words = cause === null ? 'it failed for an unknown reason' : FAILURES[cause];
  return exit_code === null ? words : `${words} with exit code ${exit_code}`;
}

/** Its machine is gone: it costs nothing any more, and nothing changes its state. */
export function isFinal({ state }: Pick<Launch, 'state'>): boolean {
  return state === 'gone' || state === 'failed';
}

export type Launch = z.infer<typeof schemas.Launch>;

export type LaunchRow = z.infer<typeof schemas.LaunchRow>;

export type ScalingControl = PoolScaling['control'];

export type PoolScaling = z.infer<typeof schemas.PoolScaling>;

export type ScalingSummary = z.infer<typeof schemas.ScalingSummary>;

export type ScalingProvider = ScalingSummary['providers'][number];

export type ScalingLauncher = ScalingSummary['launchers'][number];
