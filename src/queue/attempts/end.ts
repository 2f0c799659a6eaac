import { type Core, due } from '../state/state.ts';
import { type JobRow, type Settlement, settleJob } from '../store/jobs-table.ts';
import { dropUploads } from './tickets.ts';
import { tellWaiters } from './view.ts';

/** The one way to settle a persisted job: stored, no longer counted as pending, its waiters answered. */
export function endJob(core: Core, row: JobRow, settlement: Omit<Settlement, 'settled_at'>): void {
  const now = core.now();
  if (row.state === 'pending') core.pending.left(row);
  dropUploads(core, row.id);
  settleJob(core.sql, row, { ...settlement, settled_at: now });
  due(core, now + core.settings.retention_seconds * 1000);
  tellWaiters(core, row.id);
}
