import { doubling } from '../../process/backoff.ts';
import { EXIT } from '../../process/exit-codes.ts';
import { failureAndCause } from '../../protocol/scaling.ts';
import type { Launch } from '../launch.ts';

/** The number of consecutive failures that stops launches until an operator resumes the pool. */
const STOP_AFTER = 5;
const FIRST_DELAY_MS = 15_000;
const LONGEST_DELAY_MS = 10 * 60_000;

/**
 * The state that decides whether a pool is launched again after consecutive failures.
 *
 * ```
 * closed  → waiting   a start failed
 *         → open      it failed for a reason that no other start mends
 * waiting → closed    the delay has passed
 *         → open      the fifth consecutive failure
 * open    → closed    an operator resumed the pool, or changed it
 * ```
 */
export type Breaker = { failures: number } & (
  | { kind: 'closed' }
  | { kind: 'waiting'; until: number; why: string }
  | { kind: 'open'; why: string }
);

/**
 * Computes the breaker from the failures since the pool's last sound launch.
 * @param forgivenAt failures before this time do not count, epoch ms
 * @param areRefusalsFaults whether refusals count too: the version before was not refused
 */
export function poolBreaker(
  launches: Launch[],
  forgivenAt: number | null,
  now: number,
  areRefusalsFaults = false,
): Breaker {
  const failed = consecutiveFailures(
    launches,
    forgivenAt,
    now,
    (found) => found === 'pool' || found === 'pool_at_once' || (areRefusalsFaults && found === 'refused'),
  );
  const [newest] = failed;
  const failures = failed.length;
  if (!newest) return { kind: 'closed', failures };
  const why = failureAndCause(newest);
  if (failureClass(newest, now) === 'pool_at_once') return { kind: 'open', failures, why };
  if (failures >= STOP_AFTER) {
    return { kind: 'open', failures, why: `${failures} starts in a row failed; the last: ${why}` };
  }
  const until = classifiedAt(newest) + delayAfter(failures);
  return now < until ? { kind: 'waiting', failures, until, why } : { kind: 'closed', failures };
}

/** Returns the delay before the next launch, ms. */
export function delayAfter(failures: number): number {
  return doubling(FIRST_DELAY_MS, LONGEST_DELAY_MS, failures);
}

/**
 * Returns the failures of one class since the last sound launch, newest first. Launches that failed side by side count
 * as one: each launch in the result began after the next one in it had failed. Launches of other classes are skipped.
 */
export function consecutiveFailures(
  launches: Launch[],
  since: number | null,
  now: number,
  isFailure: (found: FailureClass) => boolean,
): Launch[] {
  const failed: Launch[] = [];
  for (const launch of [...launches].sort((one, other) => classifiedAt(other) - classifiedAt(one))) {
    if (since !== null && classifiedAt(launch) < since && launch.cause !== null) continue;
    const found = failureClass(launch, now);
    if (found === 'sound') break;
    const later = failed.at(-1);
    if (isFailure(found) && (!later || classifiedAt(launch) <= later.intended_at)) failed.push(launch);
  }
  return failed;
}

/** A worker that was ready for this many ms proves that pool and machine work, whatever ended the worker. */
const PROVEN_MS = 10 * 60_000;

/** The exit codes of a pool whose files, variables or model are wrong: its next start fails in the same way. */
const FAULTS_OF_POOL = new Set<number>([EXIT.configuration, EXIT.badModel]);

/**
 * The outcome of a launch, with the cause of a failure.
 *
 * - `sound`: the worker became ready and has stayed up, or was ended because it was not needed.
 * - `pool`: the start failed because of its pool; `pool_at_once`: another start would fail the same way.
 * - `machine`: the instance type at this provider failed.
 * - `refused`: the provider refused the launch: what its version asks for, such as an image that does not exist, or any.
 * - `no_capacity`: the provider has no free machine of the instance type.
 * - `preempted`: the provider took the machine back before the worker had proved anything.
 * - `undecided`: the worker is still starting.
 */
export type FailureClass =
  | 'sound'
  | 'pool'
  | 'pool_at_once'
  | 'machine'
  | 'refused'
  | 'no_capacity'
  | 'preempted'
  | 'undecided';

function failureClass(launch: Launch, now: number): FailureClass {
  const { cause, exit_code, ready_at } = launch;
  if (cause === 'no_capacity') return 'no_capacity';
  if (cause === 'rejected') return 'refused';
  if (cause === 'vanished') return 'machine';
  const lasted = ready_at === null ? -1 : (launch.terminating_at ?? launch.ended_at ?? now) - ready_at;
  if (cause === null) return ready_at !== null ? 'sound' : 'undecided';
  if (lasted >= PROVEN_MS) return 'sound';
  if (cause === 'preempted') return 'preempted';
  if (exit_code === EXIT.badHost) return 'machine';
  if (exit_code !== null && FAULTS_OF_POOL.has(exit_code)) return 'pool_at_once';
  // The worker vanished without an exit code: the provider took the machine, and the pool is not the cause.
  if (cause === 'lost' && exit_code === null) return 'machine';
  return 'pool';
}

/** Returns when the outcome became known, epoch ms. */
export function classifiedAt(launch: Launch): number {
  return launch.terminating_at ?? launch.state_at;
}
