import type { ListedJob } from '../../protocol/index.ts';
import type { JobFilter, JobListWanted, JobPage } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { shortErrorOf, summaryOf } from '../store/job-view.ts';
import type { StoredJob } from '../store/jobs-table.ts';
import { jobsBefore, jobsByPrefix, type Look, listedJobs } from '../store/list-table.ts';

/** Bounds the jobs that one call looks at: a filter that fits few of many must not hold up the queue. */
const MOST_LOOKED_AT = 2000;

/**
 * Returns a page of all jobs, newest first, or of the jobs whose ids begin alike, by id. One call looks at a bounded
 * number of rows, so a page may be short, or empty, before the end: only a page whose `next` is null is the last.
 */
export function list(core: Core, wanted: JobListWanted): JobPage {
  const { viewer, filter: asked } = wanted;
  // Jobs of other tenants do not exist for a tenant: a filter for them finds nothing.
  if (viewer !== null && asked.tenant !== null && asked.tenant !== viewer) return { jobs: [], next: null };
  const filter = { ...asked, tenant: viewer ?? asked.tenant };
  const { found, last } = look(core, wanted, filter);
  const jobs: StoredJob[] = [];
  // The rows are read in bites, since they are wide and all jobs found may be in the requested state.
  let taken = 0;
  while (taken < found.length && jobs.length < wanted.limit) {
    const bite = found.slice(taken, taken + wanted.limit);
    jobs.push(...listedJobs(core.sql, bite, filter));
    taken += bite.length;
  }
  const page = jobs.slice(0, wanted.limit);
  const isAll = taken === found.length && page.length === jobs.length;
  const end = isAll ? last : page.at(-1)!;
  return { jobs: page.map(listed), next: end && placeOf(wanted, end) };
}

function look({ sql }: Core, { id_prefix, since, until, before }: JobListWanted, filter: JobFilter): Look {
  const latest = until ?? Number.MAX_SAFE_INTEGER;
  if (id_prefix !== null) {
    const after = before && 'id' in before ? before.id : null;
    return jobsByPrefix(sql, id_prefix, after, { since: since ?? 0, until: latest }, filter, MOST_LOOKED_AT);
  }
  const from = before && 'seq' in before ? before : { created_at: latest, seq: 0 };
  return jobsBefore(sql, from, since ?? 0, filter, MOST_LOOKED_AT);
}

function placeOf({ id_prefix }: JobListWanted, job: { id: string; created_at: number; seq: number }) {
  return id_prefix === null ? { created_at: job.created_at, seq: job.seq } : { id: job.id };
}

function listed(job: StoredJob): ListedJob {
  return { ...summaryOf(job), error: shortErrorOf(job) };
}
