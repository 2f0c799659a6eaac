import { type Core, leasedBy } from '../state/state.ts';
import { saveCordon } from '../store/cordon-table.ts';
import { endedAt } from '../store/session-table.ts';

/**
 * Cordons these workers and no others: they get no more jobs and finish those that they hold. A worker that connects
 * again, or for the first time, is cordoned as well.
 * @returns how many jobs each of them holds, connected or not; a worker is left out while the queue does not know yet
 * what it holds
 */
export function cordon(core: Core, workerIds: readonly string[]): Record<string, number> {
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
