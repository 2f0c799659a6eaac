import {
  DURATION_BOUNDS,
  FIRST_TOKEN_BOUNDS,
  type FleetHistory,
  HISTORY_SERIES,
  QUEUE_WAIT_BOUNDS,
} from '../../protocol/index.ts';
import type { HistoryRange, Subject } from '../rpc.ts';
import { type Buckets, type Chunk, DETAIL_MS, MINUTE_MS, rolledUp } from './chunk.ts';
import { DETAIL_KEPT_MS, type History, KEPT_MS } from './history.ts';
import { TOTALS } from './pool-history.ts';
import { percentilesOf } from './quantiles.ts';

const BOUNDS: Record<string, readonly number[]> = {
  wait: QUEUE_WAIT_BOUNDS,
  first_token: FIRST_TOKEN_BOUNDS,
  duration: DURATION_BOUNDS,
};

/** The newest hour in full detail, or the newest day by minute; every series of its kind, null where nothing is known. */
export function readHistory(
  history: History,
  subject: Subject,
  range: HistoryRange,
  now: number,
): FleetHistory {
  const step_ms = range === '1h' ? DETAIL_MS : MINUTE_MS;
  const length = (range === '1h' ? DETAIL_KEPT_MS : KEPT_MS) / step_ms;
  const first = (Math.floor(now / step_ms) - length + 1) * step_ms;
  const before = history.before(subject, first);
  const stored = history.since(subject, first);
  const chunks = (before ? [before, ...stored] : stored).map((chunk) =>
    step_ms === MINUTE_MS ? rolledUp(chunk) : chunk,
  );
  const columns = new Columns(chunks, first, step_ms, length);
  const series: FleetHistory['series'] = {};
  for (const name of HISTORY_SERIES[subject.kind]) series[name] = columns.series(name);
  return { at: Array.from({ length }, (_, index) => first + index * step_ms), step_ms, series };
}

/** Chunks laid side by side, as series of a span of time. */
class Columns {
  readonly #chunks: readonly Chunk[];
  readonly #first: number;
  readonly #stepMs: number;
  readonly #length: number;

  constructor(chunks: readonly Chunk[], first: number, stepMs: number, length: number) {
    this.#chunks = chunks;
    this.#first = first;
    this.#stepMs = stepMs;
    this.#length = length;
  }

  /** @param name as in HISTORY_SERIES */
  series(name: string): (number | null)[] {
    const [, histogram, percentile] = /^(\w+)_ms_(p50|p95|p99)$/.exec(name) ?? [];
    if (histogram !== undefined) {
      const all = this.#column<Buckets>(({ columns }) => columns.buckets[histogram]);
      return all.map((buckets) => percentilesOf(buckets, BOUNDS[histogram]!)?.[percentile as 'p50'] ?? null);
    }
    if (this.#chunks.some(({ columns }) => name in columns.levels)) return this.#held(name);
    if ((TOTALS as readonly string[]).includes(name)) return this.#counted(name);
    return this.#column(({ columns }) => columns.readings[name]);
  }

  /** A step without a value has the one before it. */
  #held(name: string): (number | null)[] {
    const read = ({ columns }: Chunk) => columns.levels[name];
    let value: number | null = null;
    for (const chunk of this.#chunks) {
      for (const [step, level] of (read(chunk) ?? []).entries()) {
        if (chunk.start + step * chunk.step_ms < this.#first && level !== null) value = level;
      }
    }
    return this.#column(read).map((level) => {
      value = level ?? value;
      return value;
    });
  }

  /** Nothing came in a step that has no count, once anything is known. */
  #counted(name: string): (number | null)[] {
    const known = this.#chunks[0]?.start ?? Number.POSITIVE_INFINITY;
    return this.#column(({ columns }) => columns.counts[name]).map(
      (count, step) => count ?? (this.#first + step * this.#stepMs >= known ? 0 : null),
    );
  }

  #column<T>(read: (chunk: Chunk) => readonly (T | null)[] | undefined): (T | null)[] {
    const column: (T | null)[] = Array.from({ length: this.#length }, () => null);
    for (const chunk of this.#chunks) {
      for (const [step, value] of (read(chunk) ?? []).entries()) {
        const index = Math.floor((chunk.start + step * chunk.step_ms - this.#first) / this.#stepMs);
        if (value !== null && index >= 0 && index < this.#length) column[index] = value;
      }
    }
    return column;
  }
}
