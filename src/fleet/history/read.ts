import { type FleetHistory, HISTORY_SERIES, type LaunchRow, workerName } from '../../protocol/index.ts';
import type { HistoryRange, Subject } from '../rpc.ts';
import { span } from '../view/words.ts';
import {
  type Chunk,
  type Columns,
  DAY_MS,
  DETAIL_MS,
  HISTOGRAMS,
  type HistogramName,
  HOUR_MS,
  MINUTE_MS,
  merged,
  percentilesOf,
} from './chunk.ts';
import type { History } from './history.ts';
import { COUNTED } from './pool-history.ts';

const RANGES: Record<HistoryRange, { ms: number; step_ms: number }> = {
  '15m': { ms: 15 * MINUTE_MS, step_ms: DETAIL_MS },
  '1h': { ms: HOUR_MS, step_ms: DETAIL_MS },
  '6h': { ms: 6 * HOUR_MS, step_ms: MINUTE_MS },
  '24h': { ms: DAY_MS, step_ms: MINUTE_MS },
  '7d': { ms: 7 * DAY_MS, step_ms: HOUR_MS },
  '30d': { ms: 30 * DAY_MS, step_ms: HOUR_MS },
};

interface HistorySpan {
  range: HistoryRange;
  /** The end of the span, epoch ms. */
  until: number;
  now: number;
}

/**
 * Reads a span in the steps in which it is still stored: every series of the subject's kind, with null for steps of
 * which nothing is known.
 */
export function readHistory(
  history: History,
  subject: Subject,
  { range, until, now }: HistorySpan,
): Omit<FleetHistory, 'marks'> {
  const { ms } = RANGES[range];
  const step_ms = Math.max(RANGES[range].step_ms, stepKeptAt(until - ms, now));
  const length = Math.max(1, ms / step_ms);
  const first = (Math.floor(until / step_ms) - length + 1) * step_ms;
  const before = history.before(subject, first);
  const days = step_ms === HOUR_MS ? history.days(subject, first) : [];
  const chunks = [...(before && !days.some(({ start }) => start === before.start) ? [before] : []), ...days];
  chunks.push(...history.since(subject, first));
  const span = new Span(chunks, first, step_ms, length);
  const series: FleetHistory['series'] = {};
  for (const name of HISTORY_SERIES[subject.kind]) series[name] = span.series(name);
  return { at: Array.from({ length }, (_, index) => first + index * step_ms), step_ms, series };
}

/**
 * Returns the step in which a time is still stored: an hour in full detail, a day by minute. A time within one step of
 * that limit counts as rolled up already.
 */
function stepKeptAt(from: number, now: number): number {
  if (from < now - DAY_MS - HOUR_MS) return HOUR_MS;
  return from < now - HOUR_MS - MINUTE_MS ? MINUTE_MS : DETAIL_MS;
}

/** Chunks laid side by side, as series of a span of time. */
class Span {
  readonly #columns: Columns;
  readonly #chunks: readonly Chunk[];
  readonly #first: number;
  readonly #stepMs: number;
  readonly #length: number;

  constructor(chunks: readonly Chunk[], first: number, stepMs: number, length: number) {
    this.#columns = merged(chunks, first, stepMs, length);
    this.#chunks = chunks;
    this.#first = first;
    this.#stepMs = stepMs;
    this.#length = length;
  }

  /** @param name as in HISTORY_SERIES */
  series(name: string): (number | null)[] {
    const [, histogram, percentile] = /^(\w+)_ms_(p50|p95|p99|n)$/.exec(name) ?? [];
    if (histogram !== undefined) {
      const all = this.#columns.buckets[histogram] ?? this.#nothing();
      return all.map(
        (buckets) =>
          percentilesOf(buckets, HISTOGRAMS[histogram as HistogramName])?.[percentile as 'p50'] ?? null,
      );
    }
    if (name === 'waiting_most') {
      const held = this.#held('waiting');
      return held.map((value, step) => this.#columns.peaks[name]?.[step] ?? value);
    }
    if (this.#chunks.some(({ columns }) => name in columns.levels)) return this.#held(name);
    if ((COUNTED as readonly string[]).includes(name)) return this.#counted(name);
    return this.#columns.readings[name] ?? this.#nothing();
  }

  /** Returns a series of levels: a step without a value has the one before it. */
  #held(name: string): (number | null)[] {
    let value: number | null = null;
    for (const chunk of this.#chunks) {
      for (const [step, level] of (chunk.columns.levels[name] ?? []).entries()) {
        if (chunk.start + step * chunk.step_ms < this.#first && level !== null) value = level;
      }
    }
    return (this.#columns.levels[name] ?? this.#nothing()).map((level) => {
      value = level ?? value;
      return value;
    });
  }

  /** Returns a series of counts: a step without a count has 0, once anything is known. */
  #counted(name: string): (number | null)[] {
    const known = this.#chunks[0]?.start ?? Number.POSITIVE_INFINITY;
    return (this.#columns.counts[name] ?? this.#nothing()).map(
      (count, step) => count ?? (this.#first + (step + 1) * this.#stepMs > known ? 0 : null),
    );
  }

  #nothing(): null[] {
    return Array.from({ length: this.#length }, () => null);
  }
}

type Mark = FleetHistory['marks'][number];

/** The most marks, the newest: a chart with hundreds of them shows nothing. */
const MOST_MARKS = 100;

/**
 * Lists what happened to machines and workers since a time, oldest first.
 * @param started workers that became ready
 * @param configId null: of all pools
 */
export function marksOf(
  started: readonly { at: number; worker_id: string; took_ms: number }[],
  launches: readonly LaunchRow[],
  configId: string | null,
  from: number,
): Mark[] {
  const own = launches.filter(({ config_id }) => configId === null || config_id === configId);
  const marks: Mark[] = [
    ...started.map(({ at, worker_id, took_ms }) => ({
      at,
      kind: 'started' as const,
      text: `${workerName(worker_id)} is ready after ${span(took_ms)}`,
    })),
    ...own.flatMap(marksOfLaunch),
  ];
  return marks
    .filter(({ at }) => at >= from)
    .sort((a, b) => a.at - b.at)
    .slice(-MOST_MARKS);
}

function marksOfLaunch(launch: LaunchRow): Mark[] {
  const { config_id, intended_at, ended_at, state } = launch;
  const name = workerName(launch.name);
  const marks: Mark[] = [{ at: intended_at, kind: 'launched', text: `${name} launched for ${config_id}` }];
  if (ended_at === null) return marks;
  return [
    ...marks,
    state === 'failed'
      ? { at: ended_at, kind: 'failed', text: `${name} failed` }
      : { at: ended_at, kind: 'ended', text: `${name} ended` },
  ];
}
