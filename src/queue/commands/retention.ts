import { stillConnectedMs, tellStillConnected } from '../events/fleet-events.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { forgetLedger } from '../store/ledger-table.ts';
import { forgetSessions, nextToForget } from '../store/session-table.ts';
import {
  forgetSettlements,
  type OldJob,
  oldestSettled,
  oldestSettledAt,
} from '../store/settlements-table.ts';

/** Settled jobs deleted in one event, so that no event takes long. */
const BITE_JOBS = 200;
/** Between two bites, ms: others get their turn. */
const PAUSE_MS = 50;

/** Forgets what was settled, or not heard of, longer ago than the retention time; a bite at a time. */
export function sweep(core: Core): void {
  const before = core.now() - core.settings.retention_seconds * 1000;
  sweepJobs(core, before);
  forgetSessions(core.sql, before);
  tellStillConnected(core);
  const next = nextSweep(core);
  if (next !== null) due(core, Math.max(next, core.now() + PAUSE_MS));
}

function sweepJobs(core: Core, before: number): void {
  if ((oldestSettledAt(core.sql) ?? before + 1) > before) return;
  const oldest = oldestSettled(core.sql, BITE_JOBS);
  const kept = oldest.findIndex((job) => job.settled_at > before);
  const jobs = kept < 0 ? oldest : oldest.slice(0, kept);
  forget(core, jobs);
  forgetSettlements(core.sql, jobs.at(-1)?.settlement ?? 0);
}

/** Every table that holds something of a job. Its files end by themselves: who holds them asks (files/object.ts). */
function forget(core: Core, jobs: readonly OldJob[]): void {
  forgetLedger(core.sql, JSON.stringify(jobs.map((job) => job.seq)));
  core.stored.remove(jobs);
}

function nextSweep(core: Core): number | null {
  return nextToForget(core.sql, core.settings.retention_seconds * 1000, stillConnectedMs(core));
}
