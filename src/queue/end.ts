import { type Core, due } from './core.ts';
import { type LedgerStep, record } from './ledger.ts';
import { type JobRow, type Settlement, settleJob } from './tables.ts';
import { tellWaiters } from './view.ts';

/** The one way to settle a persisted job: stored, told in its ledger, its waiters answered, its end noted. */
export function endJob(
  core: Core,
  row: JobRow,
  settlement: Omit<Settlement, 'settled_at'>,
  step: LedgerStep,
): void {
  const now = core.now();
  if (row.state === 'pending') core.pending.left(row);
  settleJob(core.sql, row, { ...settlement, settled_at: now });
  const why = settlement.error === null ? '' : `: ${settlement.error.message}`;
  record(core, { ...row, worker_id: settlement.worker_id }, step, `${settlement.state}${why}`);
  due(core, now + core.settings.retention_seconds * 1000);
  tellWaiters(core, row.id);
}
