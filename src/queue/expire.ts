import { endUnfinished } from './cancel.ts';
import { type Core, due } from './core.ts';
import { fillConfig } from './dispatch.ts';
import { sweep } from './retention.ts';
import { failAttempt } from './retry.ts';
import { revoke } from './revoke.ts';
import { closeSilent, nextSilence } from './silence.ts';
import { deadlinesDue, leasesDue, nextDue, wakeDelayed } from './tables.ts';

/**
 * The alarm: leases that ran out, deadlines that passed, retry delays that are over, workers that are
 * silent, jobs to be forgotten.
 * Runs at least once and may run late or twice: it looks at what is due now, whatever it was set for.
 */
export function expire(core: Core): void {
  const now = core.now();
  closeSilent(core);
  const configs = new Set<string>(wakeDelayed(core.sql, now));
  for (const row of deadlinesDue(core.sql, now)) {
    endUnfinished(core, row, 'expired', 'deadline', 'the deadline passed before the job was done');
    configs.add(row.config_id);
  }
  for (const row of leasesDue(core.sql, now)) {
    const holder = row.worker_id === null ? null : core.fleet.byId(row.worker_id);
    if (holder) holder.silent = true;
    revoke(core, row.worker_id, row.id, 'lease_lost');
    failAttempt(core, row, {
      message: 'the lease ran out: the worker was gone or did not renew it',
      code: 'lease_expired',
      retryable: true,
    });
    core.log('warn', 'lease expired', {
      job_id: row.id,
      worker_id: row.worker_id,
      fence_token: row.fence_token,
    });
    configs.add(row.config_id);
  }
  for (const config of configs) fillConfig(core, config);
  core.alarm.clear();
  for (const next of [nextDue(core.sql), nextSilence(core)]) if (next !== null) due(core, next);
  sweep(core);
}
