import type { ReportedLimits } from '../../admission/accounts.ts';
import type { CanaryShare } from '../../fleet/rpc.ts';
import type { LimitView } from '../../protocol/index.ts';
import type { EndedToken } from '../../settings/token-entry.ts';
import { closeForToken } from '../attempts/connection.ts';
import { endUnfinished } from '../attempts/end.ts';
import { type Core, leasedBy } from '../state/state.ts';
import { endedAt, saveCordon } from '../store/session-table.ts';

/**
 * Cordons these workers and no others: they get no more jobs and finish those that they hold. A worker that connects
 * again, or for the first time, is cordoned as well.
 * @param shares the new versions that are tried on a part of their pools' requests; the queue keeps them in memory, and
 * the fleet object repeats them
 * @returns how many jobs each of them holds, connected or not; a worker is left out while the queue does not know yet
 * what it holds
 */
export function cordon(
  core: Core,
  workerIds: readonly string[],
  shares: readonly CanaryShare[] = [],
): Record<string, number> {
  core.workers.try(shares);
  if (core.workers.cordon(workerIds)) saveCordon(core.sql, workerIds);
  return Object.fromEntries(
    workerIds.flatMap((id) => {
      const held = heldBy(core, id);
      return held === null ? [] : [[id, held]];
    }),
  );
}

/**
 * Counts the jobs that a worker holds; null if the queue does not know yet. Waiting jobs are in memory; after a restart
 * only their worker knows them, and lists them when it registers again, within its grace.
 */
function heldBy(core: Core, workerId: string): number | null {
  const leased = leasedBy(core, workerId).length;
  const worker = core.workers.byId(workerId);
  if (worker) return Math.max(leased, worker.running.size);
  const lostAt = endedAt(core.sql, workerId);
  const mayReturn = lostAt !== null && core.now() - lostAt < core.settings.reconnect_grace_seconds * 1000;
  return leased === 0 && mayReturn ? null : leased;
}

/**
 * Ends what depends on tokens that were revoked, rotated or given other rights: their workers dial again, and requests
 * that wait with a secret that is gone end. Stored jobs go on, as do all other tenants.
 */
export function endTokens(core: Core, ended: readonly EndedToken[]): void {
  const secrets = new Set(ended.map(({ sha256 }) => sha256));
  for (const connection of core.connections()) {
    if (!secrets.has(connection.token?.sha256 ?? '')) continue;
    closeForToken(core, connection, 'the token of this worker has changed');
  }
  const gone = new Set(ended.filter(({ isGone }) => isGone).map(({ name }) => name));
  for (const job of gone.size > 0 ? core.waiting.all() : []) {
    if (!gone.has(job.token_name ?? '')) continue;
    const message = `the token "${job.token_name}" was revoked or rotated while this request ran`;
    endUnfinished(core, job, 'cancelled', 'cancelled', message);
  }
}

/** Takes changed limits of tokens that arrive without a request. */
export function reportLimits(core: Core, changed: readonly ReportedLimits[]): void {
  for (const reported of changed) core.admission.book.report(reported);
}

/** Returns the usage and limits of every token that has limits. */
export function limits(core: Core): LimitView[] {
  return core.admission.book.views();
}
