import { stillConnectedMs, tellStillConnected } from '../events/fleet-events.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { forgetFiles } from '../store/blob-table.ts';
import { forgetSessions } from '../store/session-table.ts';
import { forgetSettlements, oldestSettledAt } from '../store/settlements-table.ts';

/** Settled jobs forgotten in one event, and pieces of long text: what one event deletes stays short. */
const BITE_JOBS = 200;
const BITE_TEXTS = 100;
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
  const jobs: { seq: number; id: string }[] = [];
  let texts = 0;
  let newest = 0;
  for (const { seq, id, settlement, settled_at } of core.sql.exec(
    `SELECT seq, id, settlement, settled_at FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement LIMIT ?`,
    BITE_JOBS,
  )) {
    if (Number(settled_at) > before) break;
    jobs.push({ seq: Number(seq), id: String(id) });
    newest = Number(settlement);
    texts += Number(core.sql.exec(`SELECT count(*) AS n FROM long_texts WHERE job_id = ?`, id!)[0]?.n);
    if (texts >= BITE_TEXTS) break;
  }
  forget(core, jobs);
  forgetSettlements(core.sql, newest);
}

/** Every table that holds something of a job. */
function forget(core: Core, jobs: readonly { seq: number; id: string }[]): void {
  const seqs = JSON.stringify(jobs.map((job) => job.seq));
  const ids = JSON.stringify(jobs.map((job) => job.id));
  core.sql.exec(`DELETE FROM long_texts WHERE job_id IN (SELECT value FROM json_each(?))`, ids);
  forgetFiles(core, 'job', ids);
  core.sql.exec(`DELETE FROM ledger WHERE job IN (SELECT value FROM json_each(?))`, seqs);
  core.stored.remove(jobs);
}

/** Epoch ms at which the next job or session is to be forgotten, or a worker told to be connected; null: there is none. */
function nextSweep(core: Core): number | null {
  const row = core.sql.exec(
    `SELECT min(at) AS at FROM (
       SELECT settled_at + ?1 AS at FROM (
         SELECT settled_at FROM jobs WHERE settlement IS NOT NULL ORDER BY settlement LIMIT 1)
       UNION ALL SELECT min(heard_at + iif(is_connected, ?2, ?1)) FROM sessions)`,
    core.settings.retention_seconds * 1000,
    stillConnectedMs(core),
  )[0];
  return row?.at == null ? null : Number(row.at);
}
