import { iso, maySee, type Settlement, type SettlementsAnswer, type SettlementsWanted } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { attemptsOf, shortErrorOf } from '../store/job-view.ts';
import {
  forgottenSettlement,
  type SettledJob,
  settledJob,
  settlementsAfter,
} from '../store/settlements-table.ts';

/** Settlements that one call looks at, and those it answers: it stays short, however many the filter leaves out. */
const MOST_LOOKED_AT = 1000;
const MOST_TOLD = 100;
/** Callers that may wait for news at a time: in all, and of one tenant. */
const MOST_WAITS = 200;
const MOST_WAITS_OF_TENANT = 20;

/**
 * Answers with the settlements after a number, oldest first. Where there are none it answers as soon as a job settles,
 * with none after `wait_ms`, or at once that too many callers wait already. The queue keeps nothing for a caller
 * between two calls.
 */
export function settlements(
  core: Core,
  wanted: SettlementsWanted,
  answer: (answer: SettlementsAnswer) => void,
): void {
  const { latest, waits } = core.stored.settlements;
  const found = look(core, wanted);
  const isNew = wanted.after !== null && (found.settlements.length > 0 || found.up_to > wanted.after);
  if (isNew || found.missed !== null) return answer(found);
  const tenant = wanted.viewer;
  const ofTenant = waits.filter((wait) => wait.tenant === tenant).length;
  if (waits.length >= MOST_WAITS || (tenant !== null && ofTenant >= MOST_WAITS_OF_TENANT)) {
    return answer({ ok: false, most: tenant === null ? MOST_WAITS : MOST_WAITS_OF_TENANT });
  }
  if (wanted.wait_ms <= 0) return answer(found);
  const after = wanted.after ?? latest;
  core.stored.settlements.add({
    tenant,
    until: core.now() + wanted.wait_ms,
    answer: () => answer(look(core, { ...wanted, after })),
  });
}

function look(core: Core, { after, config_id, viewer }: SettlementsWanted): Found {
  const { latest } = core.stored.settlements;
  if (after === null) return { ok: true, settlements: [], up_to: latest, missed: null };
  // A number larger than the newest comes from another database.
  if (after > latest) return { ok: true, settlements: [], up_to: latest, missed: 'unknown' };
  const forgotten = forgottenSettlement(core.sql);
  const from = Math.max(after, forgotten);
  const told: Settlement[] = [];
  let upTo = from;
  const keys = settlementsAfter(core.sql, from, MOST_LOOKED_AT);
  for (const { settlement, seq, ...key } of keys) {
    if (told.length === MOST_TOLD) break;
    upTo = settlement;
    if ((config_id !== null && key.config_id !== config_id) || !maySee(viewer, key.tenant)) continue;
    told.push(settlementOf(settlement, settledJob(core.sql, seq)));
  }
  return { ok: true, settlements: told, up_to: upTo, missed: after < forgotten ? 'forgotten' : null };
}

type Found = Extract<SettlementsAnswer, { ok: true }>;

function settlementOf(n: number, job: SettledJob): Settlement {
  return {
    n,
    id: job.id,
    job_type: job.job_type,
    config_id: job.config_id,
    state: job.state,
    attempts: attemptsOf(job),
    worker_id: job.worker_id,
    created_at: iso(job.created_at),
    settled_at: iso(job.settled_at),
    error: shortErrorOf(job),
  };
}
