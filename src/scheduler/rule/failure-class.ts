import { EXIT } from '../../process/exit-codes.ts';
import type { Launch } from '../launch.ts';

/** A worker that was ready for this many ms proves that pool and machine work, whatever ended it. */
const PROVEN_MS = 10 * 60_000;

/** The exit codes of a pool whose files, variables or model are wrong: another start of it fails the same way. */
const FAULTS_OF_POOL = new Set<number>([EXIT.configuration, EXIT.badModel]);

/**
 * The outcome of a launch, and what caused a failure.
 *
 * - `sound`: the worker became ready and has stayed up, or was ended because it was not needed.
 * - `pool`: the start failed because of its pool; `pool_at_once`: another start would fail the same way.
 * - `machine`: the instance type at this provider failed.
 * - `no_capacity`: the provider has no free machine of the instance type.
 * - `undecided`: the worker is still starting.
 */
export type FailureClass = 'sound' | 'pool' | 'pool_at_once' | 'machine' | 'no_capacity' | 'undecided';

export function failureClass(launch: Launch, now: number): FailureClass {
  const { cause, exit_code, ready_at } = launch;
  if (cause === 'no_capacity') return 'no_capacity';
  if (cause === 'rejected' || cause === 'vanished') return 'machine';
  const lasted = ready_at === null ? -1 : (launch.terminating_at ?? launch.ended_at ?? now) - ready_at;
  if (cause === null) return ready_at !== null ? 'sound' : 'undecided';
  if (lasted >= PROVEN_MS) return 'sound';
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
