import {
  DURATION_BOUNDS,
  FIRST_TOKEN_BOUNDS,
  PER_TOKEN_BOUNDS,
  type Percentiles,
  QUEUE_WAIT_BOUNDS,
} from '../../protocol/index.ts';

/** The history of a subject over ten minutes, or by hour over a day, in columns of steps. */
export interface Chunk {
  /** The start of the chunk, epoch ms, a multiple of its span. */
  start: number;
  /** The length of a step: DETAIL_MS, or MINUTE_MS once the chunk was rolled up; HOUR_MS in a day. */
  step_ms: number;
  columns: Columns;
}

/** The columns of a chunk by name, a value a step; null: none. */
export interface Columns {
  /** Measurements: a longer step has their mean. */
  readings: Record<string, (number | null)[]>;
  /** Levels that hold until they change: a longer step has the last. */
  levels: Record<string, (number | null)[]>;
  /** Maxima: a longer step has the highest. */
  peaks: Record<string, (number | null)[]>;
  /** Counts: a longer step has their sum. */
  counts: Record<string, (number | null)[]>;
  /** Histograms: a longer step has them merged. */
  buckets: Record<string, (Buckets | null)[]>;
}

type ColumnKind = keyof Columns;

function newColumns(): Columns {
  return { readings: {}, levels: {}, peaks: {}, counts: {}, buckets: {} };
}

/** Counts by the number of a bucket, those that are not 0. */
export type Buckets = Record<number, number>;

export const DETAIL_MS = 10_000;
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const CHUNK_MS = 600_000;
export const DAY_MS = 24 * HOUR_MS;

export function chunkStart(at: number): number {
  return at - (at % CHUNK_MS);
}

export function newChunk(start: number, step_ms = DETAIL_MS): Chunk {
  return { start, step_ms, columns: newColumns() };
}

/** Returns how many steps a chunk has. */
function lengthOf(step_ms: number): number {
  return (step_ms === HOUR_MS ? DAY_MS : CHUNK_MS) / step_ms;
}

/** Sets values from one moment to another, both included; times outside the chunk are left out. */
export function setReadings(chunk: Chunk, from: number, to: number, values: Record<string, number>): void {
  const end = chunk.start + CHUNK_MS - 1;
  const [first, last] = [stepOf(chunk, Math.max(from, chunk.start)), stepOf(chunk, Math.min(to, end))];
  for (const [name, value] of Object.entries(values)) {
    const column = columnOf(chunk, 'readings', name);
    for (let step = first; step <= last; step++) column[step] = Number(value.toPrecision(4));
  }
}

export function setLevels(chunk: Chunk, at: number, values: Record<string, number>): void {
  for (const [name, value] of Object.entries(values))
    columnOf(chunk, 'levels', name)[stepOf(chunk, at)] = value;
}

/** Raises the peaks of a step to these values where they are higher. */
export function setPeaks(chunk: Chunk, at: number, values: Record<string, number>): void {
  const step = stepOf(chunk, at);
  for (const [name, value] of Object.entries(values)) {
    const column = columnOf(chunk, 'peaks', name);
    column[step] = Math.max(column[step] ?? 0, value);
  }
}

export function addCounts(chunk: Chunk, at: number, counts: Record<string, number>): void {
  for (const [name, count] of Object.entries(counts)) {
    if (count === 0) continue;
    const column = columnOf(chunk, 'counts', name);
    const step = stepOf(chunk, at);
    column[step] = (column[step] ?? 0) + count;
  }
}

export function addBuckets(chunk: Chunk, at: number, histograms: Record<string, Buckets>): void {
  const step = stepOf(chunk, at);
  for (const [name, buckets] of Object.entries(histograms)) {
    if (Object.keys(buckets).length === 0) continue;
    const column = columnOf(chunk, 'buckets', name);
    const sums = column[step] ?? {};
    column[step] = sums;
    addTo(sums, buckets);
  }
}

/** Returns the number of the bucket that a time falls into. @param bounds upper bounds of all buckets but the last, s */
export function bucketOf(bounds: readonly number[], ms: number): number {
  const bucket = bounds.findIndex((bound) => ms / 1000 <= bound);
  return bucket < 0 ? bounds.length : bucket;
}

/** Merges a histogram into another. */
export function addTo(sums: Buckets, buckets: Buckets): void {
  for (const [bucket, count] of Object.entries(buckets)) sums[+bucket] = (sums[+bucket] ?? 0) + count;
}

function stepOf({ start, step_ms }: Chunk, at: number): number {
  return Math.floor((at - start) / step_ms);
}

/** Returns a column of a chunk, and adds an empty one where the chunk has none. */
function columnOf<K extends ColumnKind>(chunk: Chunk, kind: K, name: string): Columns[K][string] {
  const columns = chunk.columns[kind] as Record<string, Columns[K][string]>;
  const column =
    columns[name] ?? (Array.from({ length: lengthOf(chunk.step_ms) }, () => null) as Columns[K][string]);
  columns[name] = column;
  return column;
}

/** Merges the values of a step, of which there is at least one. */
const MERGE: {
  [K in ColumnKind]: (values: NonNullable<Columns[K][string][number]>[]) => Columns[K][string][number];
} = {
  readings: (values) => Number((sum(values) / values.length).toPrecision(4)),
  levels: (values) => values.at(-1)!,
  peaks: (values) => Math.max(...values),
  counts: sum,
  buckets: addedBuckets,
};

/**
 * Lays chunks side by side in as many steps, each at least as long as theirs; what lies outside is left out.
 * @param chunks oldest first
 */
export function merged(chunks: readonly Chunk[], first: number, step_ms: number, length: number): Columns {
  const columns = newColumns();
  for (const kind of Object.keys(MERGE) as ColumnKind[])
    mergeKind(columns, kind, chunks, first, step_ms, length);
  return columns;
}

function mergeKind<K extends ColumnKind>(
  into: Columns,
  kind: K,
  chunks: readonly Chunk[],
  first: number,
  step_ms: number,
  length: number,
): void {
  type Value = NonNullable<Columns[K][string][number]>;
  const gathered = new Map<string, (Value[] | null)[]>();
  for (const { start, step_ms: own, columns } of chunks) {
    for (const [name, values] of Object.entries(columns[kind] ?? {})) {
      const bins = gathered.get(name) ?? Array.from({ length }, (): Value[] | null => null);
      gathered.set(name, bins);
      for (const [step, value] of values.entries()) {
        const index = Math.floor((start + step * own - first) / step_ms);
        if (value === null || index < 0 || index >= length) continue;
        bins[index] ??= [];
        bins[index].push(value as Value);
      }
    }
  }
  for (const [name, bins] of gathered) {
    into[kind][name] = bins.map((bin) => bin && MERGE[kind](bin)) as Columns[K][string];
  }
}

/** Rolls up a chunk to steps of a minute. */
export function rolledUp(chunk: Chunk): Chunk {
  if (chunk.step_ms >= MINUTE_MS) return chunk;
  const { start } = chunk;
  return { start, step_ms: MINUTE_MS, columns: merged([chunk], start, MINUTE_MS, CHUNK_MS / MINUTE_MS) };
}

/** Adds an hour to a day. @param chunks those of the hour, oldest first */
export function addHour(day: Chunk, hour: number, chunks: readonly Chunk[]): void {
  const step = (hour - day.start) / HOUR_MS;
  const columns = merged(chunks, hour, HOUR_MS, 1);
  for (const kind of Object.keys(columns) as ColumnKind[]) {
    for (const [name, [value]] of Object.entries(columns[kind])) {
      columnOf(day, kind, name)[step] = value ?? null;
    }
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Merges histograms. */
function addedBuckets(all: readonly Buckets[]): Buckets {
  const added: Buckets = {};
  for (const buckets of all) addTo(added, buckets);
  return added;
}

/** The histograms in a history, with the upper bounds of their buckets, s. */
export const HISTOGRAMS = {
  wait: QUEUE_WAIT_BOUNDS,
  first_token: FIRST_TOKEN_BOUNDS,
  /** The times to the first token of callers that waited on their connection. */
  live_first_token: FIRST_TOKEN_BOUNDS,
  per_token: PER_TOKEN_BOUNDS,
  duration: DURATION_BOUNDS,
} as const;
export type HistogramName = keyof typeof HISTOGRAMS;
export const HISTOGRAM_NAMES = Object.keys(HISTOGRAMS) as HistogramName[];

/** Makes a value for each histogram, by name. */
export function ofEach<T>(make: (name: HistogramName) => T): Record<HistogramName, T> {
  return Object.fromEntries(HISTOGRAM_NAMES.map((name) => [name, make(name)])) as Record<HistogramName, T>;
}

/**
 * Estimates percentiles of a histogram as PromQL's `histogram_quantile` does: evenly within a bucket; in the last one,
 * which has no upper bound, its lower bound.
 * @param bounds upper bounds of all buckets but the last, s
 * @returns ms; null: nothing was measured
 */
export function percentilesOf(buckets: Buckets | null, bounds: readonly number[]): Percentiles | null {
  const all = Object.values(buckets ?? {}).reduce((total, count) => total + count, 0);
  if (buckets === null || all === 0) return null;
  const at = (share: number) => Math.round(quantile(buckets, bounds, share * all) * 1000 * 10) / 10;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), n: all };
}

function quantile(buckets: Buckets, bounds: readonly number[], rank: number): number {
  let below = 0;
  for (const [bucket, upper] of bounds.entries()) {
    const count = buckets[bucket] ?? 0;
    if (below + count >= rank && count > 0) {
      const lower = bounds[bucket - 1] ?? 0;
      return lower + ((upper - lower) * (rank - below)) / count;
    }
    below += count;
  }
  return bounds.at(-1) ?? 0;
}

/**
 * Returns what a histogram gained since its last report. A histogram that has become smaller began anew.
 * @param cumulative counts up to each bound, and last the count of all; empty: nothing was measured
 */
export function newInBuckets(cumulative: readonly number[], before: readonly number[]): Buckets {
  const base = (cumulative.at(-1) ?? 0) < (before.at(-1) ?? 0) ? [] : before;
  const added: Buckets = {};
  for (let bucket = 0; bucket < cumulative.length; bucket++) {
    const upTo = (cumulative[bucket] ?? 0) - (base[bucket] ?? 0);
    const upToLower = bucket === 0 ? 0 : (cumulative[bucket - 1] ?? 0) - (base[bucket - 1] ?? 0);
    if (upTo > upToLower) added[bucket] = upTo - upToLower;
  }
  return added;
}
