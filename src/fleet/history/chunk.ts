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

export type ColumnKind = keyof Columns;

export function newColumns(): Columns {
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

/** Merges a histogram into another. */
export function addTo(sums: Buckets, buckets: Buckets): void {
  for (const [bucket, count] of Object.entries(buckets)) sums[+bucket] = (sums[+bucket] ?? 0) + count;
}

function stepOf({ start, step_ms }: Chunk, at: number): number {
  return Math.floor((at - start) / step_ms);
}

/** Returns a column of a chunk, and adds an empty one where the chunk has none. */
export function columnOf<K extends ColumnKind>(chunk: Chunk, kind: K, name: string): Columns[K][string] {
  const columns = chunk.columns[kind] as Record<string, Columns[K][string]>;
  const column =
    columns[name] ?? (Array.from({ length: lengthOf(chunk.step_ms) }, () => null) as Columns[K][string]);
  columns[name] = column;
  return column;
}
