import {
  addTo,
  type Buckets,
  CHUNK_MS,
  type Chunk,
  type ColumnKind,
  type Columns,
  columnOf,
  HOUR_MS,
  MINUTE_MS,
  newColumns,
} from './chunk.ts';

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
