import type { JobListWanted, JobPage, ListedJob } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { shortErrorOf, summaryOf } from '../store/job-view.ts';
import type { StoredJob } from '../store/jobs-table.ts';
import { jobsBefore, type ListPlace, listedJobs } from '../store/list-table.ts';

/** Jobs passed over in one look: a filter that fits few of many must not hold up the queue. */
const MOST_LOOKED_AT = 2000;

/**
 * A page of the jobs there are, newest first. One look is short whatever is asked for, so a page may be short, or
 * empty, before the end: it is the last one only when its `next` is null.
 */
export function list(core: Core, wanted: JobListWanted): JobPage {
  const filter = { ...wanted.filter, tenant: wanted.viewer };
  const from = wanted.before ?? { created_at: wanted.until ?? Number.MAX_SAFE_INTEGER, seq: 0 };
  const { found, last } = jobsBefore(core.sql, from, wanted.since ?? 0, filter, MOST_LOOKED_AT);
  const jobs: StoredJob[] = [];
  // In bites: rows are wide, and all that were found may be in the state asked for.
  let taken = 0;
  while (taken < found.length && jobs.length < wanted.limit) {
    const bite = found.slice(taken, taken + wanted.limit);
    jobs.push(...listedJobs(core.sql, bite, filter.state));
    taken += bite.length;
  }
  const page = jobs.slice(0, wanted.limit);
  const isAll = taken === found.length && page.length === jobs.length;
  const end = isAll ? last : placeOf(page.at(-1)!);
  return { jobs: page.map(listed), next: end };
}

function placeOf({ created_at, seq }: StoredJob): ListPlace {
  return { created_at, seq };
}

function listed(job: StoredJob): ListedJob {
  return { ...summaryOf(job), error: shortErrorOf(job) };
}
