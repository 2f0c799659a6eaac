import { stillConnectedMs, tellStillConnected } from '../events/fleet-events.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { forgetLedger } from '../store/ledger-table.ts';
import { forgetSessions, nextToForget } from '../store/session-table.ts';
import { type OldJob, oldestSettled, oldestSettledAt } from '../store/settlements-table.ts';

/** The most settled jobs that are deleted in one event, so that no event takes long. */
const BITE_JOBS = 200;
/** The pause between two such events, ms, so that other work gets its turn. */
const PAUSE_MS = 50;

/**
 * Forgets jobs that settled, and workers that were last heard, longer ago than the retention time; a bounded number at
 * a time.
 */
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
  forget(core, kept < 0 ? oldest : oldest.slice(0, kept));
}

/**
 * Deletes what the tables hold of these jobs. Their files end by themselves: the object that holds them asks
 * (files/object.ts).
 */
function forget(core: Core, jobs: readonly OldJob[]): void {
  forgetLedger(core.sql, JSON.stringify(jobs.map((job) => job.seq)));
  core.stored.remove(jobs);
}

function nextSweep(core: Core): number | null {
  return nextToForget(core.sql, core.settings.retention_seconds * 1000, stillConnectedMs(core));
}
