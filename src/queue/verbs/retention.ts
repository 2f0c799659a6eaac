import { stillConnectedMs, tellStillConnected } from '../events/fleet-events.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { forgetFiles } from '../store/blob-table.ts';
import { forgetSessions } from '../store/session-table.ts';

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
  const jobs: { seq: number; id: string }[] = [];
  let texts = 0;
  for (const { seq, id } of core.sql.exec(
    `SELECT seq, id FROM jobs WHERE settled_at <= ? ORDER BY settled_at LIMIT ?`,
    before,
    BITE_JOBS,
  )) {
    jobs.push({ seq: Number(seq), id: String(id) });
    texts += Number(core.sql.exec(`SELECT count(*) AS n FROM long_texts WHERE job_id = ?`, id!)[0]?.n);
    if (texts >= BITE_TEXTS) break;
  }
  if (jobs.length > 0) forget(core, jobs);
}

/** Every table that holds something of a job. */
function forget(core: Core, jobs: readonly { seq: number; id: string }[]): void {
  const seqs = JSON.stringify(jobs.map((job) => job.seq));
  const ids = JSON.stringify(jobs.map((job) => job.id));
  core.sql.exec(`DELETE FROM long_texts WHERE job_id IN (SELECT value FROM json_each(?))`, ids);
  forgetFiles(core, 'job', ids);
  core.sql.exec(`DELETE FROM ledger WHERE job IN (SELECT value FROM json_each(?))`, seqs);
  core.sql.exec(`DELETE FROM jobs WHERE seq IN (SELECT value FROM json_each(?))`, seqs);
}

/** Epoch ms at which the next job or session is to be forgotten, or a worker told to be connected; null: there is none. */
function nextSweep(core: Core): number | null {
  const row = core.sql.exec(
    `SELECT min(at) AS at FROM (
       SELECT min(settled_at) + ?1 AS at FROM jobs WHERE settled_at IS NOT NULL
       UNION ALL SELECT min(heard_at + iif(is_connected, ?2, ?1)) FROM sessions)`,
    core.settings.retention_seconds * 1000,
    stillConnectedMs(core),
  )[0];
  return row?.at == null ? null : Number(row.at);
}
