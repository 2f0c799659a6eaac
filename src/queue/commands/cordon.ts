import { type Core, leasedBy } from '../state/state.ts';
import { saveCordon } from '../store/cordon-table.ts';
import { endedAt } from '../store/session-table.ts';

/**
 * These workers and no others get no more jobs. What they hold they finish. A worker that is connected again, or for the
 * first time, is cordoned as well.
 * @returns how many jobs each of them holds, connected or not; a worker of which that is not known yet is left out
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
 * Null: that is not known yet. Jobs of callers that wait are in memory, and when that was lost only their worker knows
 * of them: it lists them when it registers again, which it does within its grace.
 */
function heldBy(core: Core, workerId: string): number | null {
  const leased = leasedBy(core, workerId).length;
  const worker = core.workers.byId(workerId);
  if (worker) return Math.max(leased, worker.running.size);
  const lostAt = endedAt(core.sql, workerId);
  const mayReturn = lostAt !== null && core.now() - lostAt < core.settings.reconnect_grace_seconds * 1000;
  return leased === 0 && mayReturn ? null : leased;
}
