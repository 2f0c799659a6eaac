import { endUnfinished } from '../attempts/end.ts';
import type { Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { pendingOfPool } from '../store/pending-table.ts';

/** The most jobs that are cancelled in one event, so that other work gets its turn. */
const BITE_JOBS = 500;

/** Cancels pending stored jobs of a pool, if this viewer sees them. @returns how many; 0 when none is left */
export function purge(core: Core, configId: string, viewer: Viewer): number {
  const jobs = pendingOfPool(core.sql, configId, viewer, BITE_JOBS);
  for (const job of jobs) endUnfinished(core, job, 'cancelled', 'cancelled', 'its caller purged the queue');
  return jobs.length;
}
