import { computed } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure, ask } from '../api.ts';
import { fleet } from '../live.ts';
import { repeat } from '../polled.ts';
import { isTouched } from './window.ts';

const PAGE_ROWS = 100;
/** The most rows that the API returns at a time; shown rows beyond them stay as they were when they were read. */
const MOST_ROWS = 500;
/** The time between two looks for news, ms. */
const LOOK_MS = 2000;
/**
 * New rows wait if the list is scrolled further than this, if somebody points at a row, or if rows are touched: they
 * would move what is being read.
 */
const AT_TOP_PX = 120;

/**
 * A text that changes when a job or a request has changed anywhere: only then are lists read again, so that they cost
 * nothing while nothing happens.
 */
const activity = computed(() => {
  const view = fleet.value;
  if (!view) return null;
  const counts = view.pools.map(({ day, pending, busy_slots }) => [
    ...[day.submitted, day.succeeded, day.failed, day.cancelled, day.expired],
    ...[pending.stored, busy_slots],
  ]);
  return `${view.epoch} ${counts.join(' ')}`;
});

/** A list of the API that is read page by page, newest first. */
export interface Listed<Row> {
  /** The list's path, such as `api/jobs`. */
  path: string;
  rowsOf(answer: Record<string, unknown>): Row[];
  idOf(row: Row): string;
  /** Whether the list changes by people's actions, of which the arrival of jobs says nothing. */
  isOfPeople?: true;
  /** Returns the time by which the list is ordered; the newer of two is greater. */
  timeOf(row: Row): number;
}

interface PageOf<Row> {
  rows: Row[];
  next: string | null;
}

export interface PagedList<Row> {
  rows: Row[];
  /** The number of new rows that wait to be shown. */
  news: number;
  isLoading: boolean;
  hasMore: boolean;
  /** The reason why there is no list; null: nothing is wrong. */
  problem: string | null;
  showNews(): void;
  loadMore(): void;
}

/**
 * Returns the rows that pass a filter, page by page, and the new ones among them.
 * @param asked the query of the API; `range_ms` counts back from now
 */
export function usePagedList<Row>(listed: Listed<Row>, asked: string): PagedList<Row> {
  const { idOf, timeOf } = listed;
  const [rows, setRows] = useState<Row[]>([]);
  /** The newest page, for a user who reads further down; null: no new rows came. */
  const [newest, setNewest] = useState<(PageOf<Row> & { news: number }) | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [isLoading, setLoading] = useState(true);
  const [problem, setProblem] = useState<string | null>(null);
  /** The activity at the newest look; null: there was none yet. */
  const seen = useRef<string | null>(null);
  const isFirst = useRef(true);
  const shown = useRef(rows);
  shown.current = rows;

  useEffect(() => {
    setRows([]);
    setNewest(null);
    setNext(null);
    setLoading(true);
    isFirst.current = true;
  }, [asked]);

  const read = async (more: string, signal?: AbortSignal): Promise<PageOf<Row>> => {
    const path = `${listed.path}?${withSince(asked)}&${more}`;
    const answer = await ask<Record<string, unknown>>(path, signal ? { signal } : {});
    return { rows: listed.rowsOf(answer), next: answer.next as string | null };
  };

  const look = async (signal: AbortSignal) => {
    const current = listed.isOfPeople ? null : activity.peek();
    if (!isFirst.current && current !== null && current === seen.current) return;
    try {
      // All shown rows may have changed, not only new ones.
      const limit = isFirst.current
        ? PAGE_ROWS
        : Math.max(PAGE_ROWS, Math.min(MOST_ROWS, shown.current.length));
      const page = await read(`limit=${limit}`, signal);
      seen.current = current;
      take(page);
      setProblem(null);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiFailure && error.status !== 0) setProblem(error.message);
    }
    setLoading(false);
  };

  const show = (page: PageOf<Row>) => {
    setRows(page.rows);
    setNext(page.next);
    setNewest(null);
  };

  /**
   * Adopts a page. At the top the page becomes the list: added to the known rows it would grow for ever, and miss what
   * came in between.
   */
  const take = (page: PageOf<Row>) => {
    const isEmpty = shown.current.length === 0;
    if (isFirst.current || isEmpty || (scrollY <= AT_TOP_PX && !isRead())) {
      isFirst.current = false;
      return show(page);
    }
    const ids = new Set(shown.current.map(idOf));
    const news = page.rows.filter((row) => !ids.has(idOf(row))).length;
    setNewest(news > 0 ? { ...page, news } : null);
    const newer = new Map(page.rows.map((row) => [idOf(row), row]));
    // A known row in the page's span that the page lacks no longer fits the filter.
    const end = page.next === null ? undefined : page.rows.at(-1);
    const isInSpan = (row: Row) =>
      end === undefined || (isById(asked) ? idOf(row) <= idOf(end) : timeOf(row) > timeOf(end));
    setRows((known) => known.flatMap((row) => newer.get(idOf(row)) ?? (isInSpan(row) ? [] : row)));
  };

  useEffect(() => repeat(LOOK_MS, look), [asked]);

  return {
    rows,
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
      read(`limit=${MOST_ROWS}&cursor=${encodeURIComponent(next)}`)
        .then((page) => {
          setRows((known) => {
            const ids = new Set(known.map(idOf));
            return [...known, ...page.rows.filter((row) => !ids.has(idOf(row)))];
          });
          setNext(page.next);
        })
        .catch((error) => setProblem((error as Error).message))
        .finally(() => setLoading(false));
    },
  };
}

/**
 * Returns whether somebody points at a row, or has focused one: new rows above would move it. Nobody points where rows
 * are touched, and what a finger aims at must not move either.
 */
function isRead(): boolean {
  return isTouched || document.querySelector('main tbody:hover, main tbody:focus-within') !== null;
}

/** Returns whether the API answers a query in the order of the ids, which it does for a part of an id. */
function isById(asked: string): boolean {
  return new URLSearchParams(asked).has('id_prefix');
}

/** Returns the query with the time to which `range_ms` counts back. */
export function withSince(asked: string): string {
  const params = new URLSearchParams(asked);
  const range = Number(params.get('range_ms'));
  params.delete('range_ms');
  if (range) params.set('since', new Date(Date.now() - range).toISOString());
  return params.toString();
}
