import type { Launch } from '../launch.ts';
import { type Blame, blame, blamedAt } from './blame.ts';

/** Failures in a row after which nothing is tried any more until somebody looks. */
const STOP_AFTER = 5;
const FIRST_DELAY_MS = 15_000;
const LONGEST_DELAY_MS = 10 * 60_000;

/**
 * Whether one more launch of a config makes sense, after so many failures in a row.
 *
 * ```
 * closed  → waiting   a start failed
 *         → open      it failed for a reason that no other start mends
 * waiting → closed    its time has passed
 *         → open      the fifth failure in a row
 * open    → closed    an operator resumed the config, or changed it
 * ```
 */
export type Breaker = { failures: number } & (
  | { kind: 'closed' }
  | { kind: 'waiting'; until: number; why: string }
  | { kind: 'open'; why: string }
);

/**
 * Read off the config's launches, newest first: failures since the last one that was sound.
 * @param forgivenAt failures before it do not count, epoch ms
 */
export function configBreaker(launches: Launch[], forgivenAt: number | null, now: number): Breaker {
  const failed = streak(
    launches,
    forgivenAt,
    now,
    (found) => found === 'config' || found === 'config_at_once',
  );
  const [newest] = failed;
  const failures = failed.length;
  if (!newest) return { kind: 'closed', failures };
  const why = inWords(newest);
  if (blame(newest, now) === 'config_at_once') return { kind: 'open', failures, why };
  if (failures >= STOP_AFTER) {
    return { kind: 'open', failures, why: `${failures} starts in a row failed; the last: ${why}` };
  }
  const until = blamedAt(newest) + delayAfter(failures);
  return now < until ? { kind: 'waiting', failures, until, why } : { kind: 'closed', failures };
}

/** ms */
export function delayAfter(failures: number): number {
  return Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1));
}

/**
 * Failures of one sort since the last sound launch, newest first. Of launches that failed side by side one counts: each
 * was begun after the next had failed. Launches that say nothing of it are passed over.
 */
export function streak(
  launches: Launch[],
  since: number | null,
  now: number,
  isFailure: (found: Blame) => boolean,
): Launch[] {
  const failed: Launch[] = [];
  for (const launch of [...launches].sort((one, other) => blamedAt(other) - blamedAt(one))) {
    if (since !== null && blamedAt(launch) < since && launch.cause !== null) continue;
    const found = blame(launch, now);
    if (found === 'sound') break;
    const later = failed.at(-1);
    if (isFailure(found) && (!later || blamedAt(launch) <= later.intended_at)) failed.push(launch);
  }
  return failed;
}

export function inWords({ cause, exit_code, detail }: Launch): string {
  const what = {
    no_capacity: 'the provider has no such machine free',
    rejected: 'the provider refused the launch',
    vanished: 'the provider does not list the machine that it was asked for',
    start_deadline: 'it was not ready within its start deadline',
    exited: 'its container ended',
    lost: 'it was lost soon after it was ready',
  }[cause ?? 'lost'];
  const code = exit_code === null ? '' : ` with exit code ${exit_code}`;
  return `${what}${code}${detail ? ` (${detail})` : ''}`;
}
