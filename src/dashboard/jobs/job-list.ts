import { computed } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure, ask } from '../api.ts';
import { fleet } from '../live.ts';
import { repeat } from '../polled.ts';
import type { JobPage, JobSummary } from './job.ts';

const PAGE_JOBS = 100;
/** The most that the API gives at a time: of more than these, older ones are as they were when they were read. */
const MOST_JOBS = 500;
/** Between two looks for news, ms. */
const LOOK_MS = 2000;
/** Scrolled further than this, new rows wait: they would move what is being read. */
const AT_TOP_PX = 120;

/** Changes when a job somewhere did: lists are asked for again then, and cost nothing while nothing happens. */
const activity = computed(() => {
  const view = fleet.value;
  if (!view) return null;
  const counts = view.pools.map(({ day, pending, busy_slots }) => [
    ...[day.submitted, day.succeeded, day.failed, day.cancelled, day.expired],
    ...[pending.stored, busy_slots],
  ]);
  return `${view.epoch} ${counts.join(' ')}`;
});

interface JobList {
  jobs: JobSummary[];
  /** How many new ones wait to be shown. */
  news: number;
  isLoading: boolean;
  hasMore: boolean;
  /** Why there is no list. */
  problem: string | null;
  showNews(): void;
  loadMore(): void;
}

/** Jobs by filter, page by page, and what is new among them. @param asked query of the API; `range_ms` counts from now */
export function useJobList(asked: string): JobList {
  const [jobs, setJobs] = useState<JobSummary[]>([]);
  /** What is to be shown where somebody reads further down; null: nothing new came. */
  const [newest, setNewest] = useState<(JobPage & { news: number }) | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [isLoading, setLoading] = useState(true);
  const [problem, setProblem] = useState<string | null>(null);
  /** Of the activity at the newest look; null: none was made yet. */
  const seen = useRef<string | null>(null);
  const isFirst = useRef(true);
  const shown = useRef(jobs);
  shown.current = jobs;

  useEffect(() => {
    setJobs([]);
    setNewest(null);
    setNext(null);
    setLoading(true);
    isFirst.current = true;
  }, [asked]);

  const look = async (signal: AbortSignal) => {
    const current = activity.peek();
    if (!isFirst.current && current !== null && current === seen.current) return;
    try {
      // All that is shown may be another than it was, not only what is new.
      const limit = isFirst.current
        ? PAGE_JOBS
        : Math.max(PAGE_JOBS, Math.min(MOST_JOBS, shown.current.length));
      const page = await ask<JobPage>(`api/jobs?${withSince(asked)}&limit=${limit}`, { signal });
      seen.current = current;
      take(page);
      setProblem(null);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiFailure && error.status !== 0) setProblem(error.message);
    }
    setLoading(false);
  };

  const show = (page: JobPage) => {
    setJobs(page.jobs);
    setNext(page.next);
    setNewest(null);
  };

  /** At the top the list is the page: added to what is known it would grow for ever, and miss what came in between. */
  const take = (page: JobPage) => {
    if (isFirst.current || scrollY <= AT_TOP_PX) {
      isFirst.current = false;
      return show(page);
    }
    const ids = new Set(shown.current.map(({ id }) => id));
    const news = page.jobs.filter(({ id }) => !ids.has(id)).length;
    setNewest(news > 0 ? { ...page, news } : null);
    const newer = new Map(page.jobs.map((job) => [job.id, job]));
    // What the page would hold and does not no longer fits the filter.
    const last = page.next === null ? '' : (page.jobs.at(-1)?.created_at ?? '');
    setJobs((known) => known.flatMap((job) => newer.get(job.id) ?? (job.created_at > last ? [] : job)));
  };

  useEffect(() => repeat(LOOK_MS, look), [asked]);

  return {
    jobs,
    news: newest?.news ?? 0,
    isLoading,
    hasMore: next !== null,
    problem,
    showNews: () => {
      if (newest) show(newest);
      scrollTo({ top: 0 });
    },
    loadMore: () => {
      if (next === null || isLoading) return;
      setLoading(true);
      ask<JobPage>(`api/jobs?${withSince(asked)}&limit=${MOST_JOBS}&cursor=${encodeURIComponent(next)}`)
        .then((page) => {
          setJobs((known) => {
            const ids = new Set(known.map(({ id }) => id));
            return [...known, ...page.jobs.filter(({ id }) => !ids.has(id))];
          });
          setNext(page.next);
        })
        .catch((error) => setProblem((error as Error).message))
        .finally(() => setLoading(false));
    },
  };
}

function withSince(asked: string): string {
  const params = new URLSearchParams(asked);
  const range = Number(params.get('range_ms'));
  params.delete('range_ms');
  if (range) params.set('since', new Date(Date.now() - range).toISOString());
  return params.toString();
}
