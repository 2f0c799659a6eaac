import { type Core, leasedBy } from '../state/state.ts';
import { saveCordon } from '../store/cordon-table.ts';

/**
 * These workers and no others get no more jobs. What they hold they finish. A worker that is connected again, or for the
 * first time, is cordoned as well.
 * @returns jobs that each of them holds, connected or not
 */
export function cordon(core: Core, workerIds: readonly string[]): Record<string, number> {
  if (core.workers.cordon(workerIds)) saveCordon(core.sql, workerIds);
  return Object.fromEntries(workerIds.map((id) => [id, leasedBy(core, id).length]));
}
