import { Admission } from '../../admission/admission.ts';
import { Backlog } from '../../admission/backlog.ts';
import type { QueueSettings } from '../../settings/queue-settings.ts';
import { Projections } from '../events/projection.ts';
import type { Job, JobStore, WaitingJob } from '../job.ts';
import { leasedByWorker } from '../store/leases-table.ts';
import { countHeld, jobsWithCost } from '../store/pending-table.ts';
import type { Ports } from '../store/ports.ts';
import { usedBy } from '../store/usage-table.ts';
import { Aliases } from './aliases.ts';
import { Fences } from './fences.ts';
import { JobRows } from './job-rows.ts';
import { PoolStarts } from './pools.ts';
import { ReadySet } from './ready-set.ts';
import { RecentRequests } from './recent-requests.ts';
import { StoredJobs } from './stored-jobs.ts';
import { WaitingJobs } from './waiting-jobs.ts';
import { Workers } from './workers.ts';

/** Everything that commands work on: the ports, and what the object keeps in memory beside its tables. */
export interface Core extends Ports {
  settings: QueueSettings;
  workers: Workers;
  starts: PoolStarts;
  aliases: Aliases;
  stored: StoredJobs;
  waiting: WaitingJobs;
  backlog: Backlog<WaitingJob>;
  requests: RecentRequests;
  fences: Fences;
  ready: ReadySet;
  admission: Admission<WaitingJob>;
  /** All that is derived from what happens to jobs. */
  projections: Projections;
}

/** Work that is due at a time that only memory knows. */
export interface Timed {
  /** Returns the epoch ms at which `run` may have something to do, never too late; null if there is nothing. */
  dueAt(core: Core): number | null;
  /** Does what is due now. */
  run(core: Core): void;
}

export function createCore(given: Ports, settings: QueueSettings): Core {
  const rows = new JobRows(given.sql);
  const ports = { ...given, sql: rows.sql };
  const ready = new ReadySet();
  const { sql } = ports;
  const admission = new Admission<WaitingJob>({
    ...ports,
    usedSince: (whose, from) => usedBy(sql, whose, from),
    countHeld: () => countHeld(sql),
    unsettled: () => jobsWithCost(sql),
  });
  const backlog = new Backlog<WaitingJob>();
  return {
    ...ports,
    settings,
    ready,
    workers: new Workers(ready),
    starts: new PoolStarts(),
    aliases: new Aliases(sql, settings.model_aliases),
    stored: new StoredJobs(ports, rows, settings, ready, backlog, admission),
    waiting: new WaitingJobs(ready, backlog, admission),
    backlog,
    requests: new RecentRequests(ports.now),
    fences: new Fences(ports.sql),
    admission,
    projections: new Projections(),
  };
}

/** Finds a job by its id, waiting or stored; null if there is none. A settled job is found only if it was stored. */
export function findJob(core: Core, id: string): Job | null {
  return core.waiting.find(id) ?? core.stored.find(id);
}

/** Returns the store of the job's mode. */
export function storeOf(core: Core, job: Job): JobStore<Job> {
  return job.mode === 'stored' ? core.stored : core.waiting;
}

/** Returns every job that was given to this worker and is not over. */
export function leasedBy(core: Core, workerId: string): Job[] {
  const waiting = core.waiting
    .all()
    .filter(({ state, worker_id }) => state === 'leased' && worker_id === workerId);
  return [...leasedByWorker(core.sql, workerId), ...waiting];
}
