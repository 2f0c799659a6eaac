/** What is remembered of a worker or a pool over ten minutes, in columns of steps. */
export interface Chunk {
  /** Epoch ms, a multiple of CHUNK_MS. */
  start: number;
  /** DETAIL_MS, or MINUTE_MS once it was rolled up. */
  step_ms: number;
  columns: Columns;
}

/** By name, a value a step; null: none. */
interface Columns {
  /** What was measured: a longer step has the mean. */
  readings: Record<string, (number | null)[]>;
  /** What holds until it changes: a longer step has the last. */
  levels: Record<string, (number | null)[]>;
  /** How many came: a longer step has the sum. */
  counts: Record<string, (number | null)[]>;
  /** Histograms: merged. */
  buckets: Record<string, (Buckets | null)[]>;
}

/** Counts by the number of a bucket, those that are not 0. */
export type Buckets = Record<number, number>;

export const DETAIL_MS = 10_000;
export const MINUTE_MS = 60_000;
export const CHUNK_MS = 600_000;

export function chunkStart(at: number): number {
  return at - (at % CHUNK_MS);
}

export function newChunk(start: number, step_ms = DETAIL_MS): Chunk {
  return { start, step_ms, columns: { readings: {}, levels: {}, counts: {}, buckets: {} } };
}

/** Sets what was measured from one moment on until another, both included; what is outside the chunk is left out. */
export function setReadings(chunk: Chunk, from: number, to: number, values: Record<string, number>): void {
  const end = chunk.start + CHUNK_MS - 1;
  const [first, last] = [stepOf(chunk, Math.max(from, chunk.start)), stepOf(chunk, Math.min(to, end))];
  for (const [name, value] of Object.entries(values)) {
    const column = columnOf(chunk, chunk.columns.readings, name);
    for (let step = first; step <= last; step++) column[step] = Number(value.toPrecision(4));
  }
}

export function setLevels(chunk: Chunk, at: number, values: Record<string, number>): void {
  for (const [name, value] of Object.entries(values)) {
    columnOf(chunk, chunk.columns.levels, name)[stepOf(chunk, at)] = value;
  }
}

export function addCounts(chunk: Chunk, at: number, counts: Record<string, number>): void {
  for (const [name, count] of Object.entries(counts)) {
    if (count === 0) continue;
    const column = columnOf(chunk, chunk.columns.counts, name);
    const step = stepOf(chunk, at);
    column[step] = (column[step] ?? 0) + count;
  }
}

export function addBuckets(chunk: Chunk, at: number, histograms: Record<string, Buckets>): void {
  for (const [name, buckets] of Object.entries(histograms)) {
    if (Object.keys(buckets).length === 0) continue;
    const column = columnOf(chunk, chunk.columns.buckets, name);
    const step = stepOf(chunk, at);
    column[step] = addedBuckets([column[step] ?? null, buckets]);
  }
}

/** The same by minute. */
export function rolledUp(chunk: Chunk): Chunk {
  if (chunk.step_ms === MINUTE_MS) return chunk;
  const { readings, levels, counts, buckets } = chunk.columns;
  return {
    start: chunk.start,
    step_ms: MINUTE_MS,
    columns: {
      readings: byMinute(readings, mean),
      levels: byMinute(levels, last),
      counts: byMinute(counts, sum),
      buckets: byMinute(buckets, addedBuckets),
    },
  };
}

/** Histograms merged; null where nothing was measured. */
function addedBuckets(all: readonly (Buckets | null)[]): Buckets | null {
  let added: Buckets | null = null;
  for (const buckets of all) {
    if (buckets === null) continue;
    added ??= {};
    for (const [bucket, count] of Object.entries(buckets)) added[+bucket] = (added[+bucket] ?? 0) + count;
  }
  return added;
}

function byMinute<T>(
  columns: Record<string, (T | null)[]>,
  merge: (values: (T | null)[]) => T | null,
): Record<string, (T | null)[]> {
  const steps = MINUTE_MS / DETAIL_MS;
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [
      name,
      Array.from({ length: CHUNK_MS / MINUTE_MS }, (_, minute) =>
        merge(column.slice(minute * steps, (minute + 1) * steps)),
      ),
    ]),
  );
}

function mean(values: (number | null)[]): number | null {
  const measured = values.filter((value) => value !== null);
  const total = measured.reduce((added, value) => added + value, 0);
  return measured.length === 0 ? null : Number((total / measured.length).toPrecision(4));
}

function last(values: (number | null)[]): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

function sum(values: (number | null)[]): number | null {
  const counted = values.filter((value) => value !== null);
  return counted.length === 0 ? null : counted.reduce((total, value) => total + value, 0);
}

function stepOf({ start, step_ms }: Chunk, at: number): number {
  return Math.floor((at - start) / step_ms);
}

function columnOf<T>(chunk: Chunk, columns: Record<string, (T | null)[]>, name: string): (T | null)[] {
  columns[name] ??= Array.from({ length: CHUNK_MS / chunk.step_ms }, () => null);
  return columns[name];
}
