import { EXIT } from '../../process/exit-codes.ts';
import type { Launch } from '../launch.ts';

/** A worker that was ready for so long shows that config and machine are sound, whatever ended it, ms. */
const PROVEN_MS = 10 * 60_000;

/** The config's files, variables or model are wrong: another start of it fails the same way. */
const FAULTS_OF_CONFIG = new Set<number>([EXIT.configuration, EXIT.badModel]);

/**
 * What came of a launch, and whose doing it was.
 *
 * - `sound`: it got ready and lasted, or still does, or ended because it was not needed.
 * - `config`: a start that failed; `config_at_once`: for a reason that no other start can mend.
 * - `machine`: this kind of machine at this provider.
 * - `no_capacity`: the provider has none of the kind.
 * - `undecided`: neither yet.
 */
export type Blame = 'sound' | 'config' | 'config_at_once' | 'machine' | 'no_capacity' | 'undecided';

export function blame(launch: Launch, now: number): Blame {
  const { cause, exit_code, ready_at } = launch;
  if (cause === 'no_capacity') return 'no_capacity';
  if (cause === 'rejected' || cause === 'vanished') return 'machine';
  const lasted = ready_at === null ? -1 : (launch.terminating_at ?? launch.ended_at ?? now) - ready_at;
  if (cause === null) return ready_at !== null ? 'sound' : 'undecided';
  if (lasted >= PROVEN_MS) return 'sound';
  if (exit_code === EXIT.badHost) return 'machine';
  if (exit_code !== null && FAULTS_OF_CONFIG.has(exit_code)) return 'config_at_once';
  // Lost without a word: what the provider took away is not the config's doing.
  if (cause === 'lost' && exit_code === null) return 'machine';
  return 'config';
}

/** When what is blamed became known. */
export function blamedAt(launch: Launch): number {
  return launch.terminating_at ?? launch.state_at;
}
