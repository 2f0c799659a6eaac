import type { QueueSettings } from '../settings.ts';
import { leasedByWorker } from '../store/leases-table.ts';
import type { Ports } from '../store/ports.ts';
import { ConfigStarts } from './config-starts.ts';
import { Counts } from './counts.ts';
import { Fences } from './fences.ts';
import { GoneCallers } from './gone-callers.ts';
import type { Job, JobStore } from './job.ts';
import { Fleet } from './live-fleet.ts';
import { MemoryJobs } from './memory-jobs.ts';
import { NewRows } from './new-rows.ts';
import { Openings } from './openings.ts';
import { RecentSteps } from './recent-steps.ts';
import { StoredJobs } from './stored-jobs.ts';
import { Tally } from './tally.ts';
import { Undecided } from './undecided.ts';
import { UsageBook } from './usage-book.ts';

/** What every verb works on: the ports, and what the object keeps in memory beside its tables. */
export interface Core extends Ports {
  settings: QueueSettings;
  fleet: Fleet;
  starts: ConfigStarts;
  stored: StoredJobs;
  memory: MemoryJobs;
  gone: GoneCallers;
  recent: RecentSteps;
  fences: Fences;
  openings: Openings;
  tally: Tally;
  usage: UsageBook;
  counts: Counts;
  undecided: Undecided;
}

export function createCore(given: Ports, settings: QueueSettings): Core {
  const rows = new NewRows(given.sql);
  const ports = { ...given, sql: rows.sql };
  const counts = new Counts(ports);
  const openings = new Openings();
  return {
    ...ports,
    settings,
    openings,
    fleet: new Fleet(openings),
    starts: new ConfigStarts(),
    stored: new StoredJobs(ports, given.sql, rows, settings, openings),
    memory: new MemoryJobs(openings),
    gone: new GoneCallers(ports.now),
    recent: new RecentSteps(),
    fences: new Fences(ports.sql),
    tally: new Tally(),
    usage: new UsageBook(ports, counts),
    counts,
    undecided: new Undecided(ports.now),
  };
}

/** The job of this id, wherever it lives; null: there is none. A settled one is found only where it was stored. */
export function findJob(core: Core, id: string): Job | null {
  return core.memory.find(id) ?? core.stored.find(id);
}

/** Where this job lives. */
export function storeOf(core: Core, job: Job): JobStore<Job> {
  return job.lives === 'stored' ? core.stored : core.memory;
}

/** Every job that was given to this worker and is not over. */
export function leasedBy(core: Core, workerId: string): Job[] {
  const inMemory = core.memory
    .all()
    .filter(({ state, worker_id }) => state === 'leased' && worker_id === workerId);
  return [...leasedByWorker(core.sql, workerId), ...inMemory];
}
