import { type GpuReading, type Heartbeat, perTokenMs, type RequestRecord } from '../../protocol/index.ts';
import type { Subject } from '../rpc.ts';
import {
  addBuckets,
  addCounts,
  type Buckets,
  bucketOf,
  CHUNK_MS,
  chunkStart,
  DETAIL_MS,
  HISTOGRAMS,
  type HistogramName,
  MINUTE_MS,
  rolledUp,
  setReadings,
} from './chunk.ts';
import type { History } from './history.ts';

const HOUR_MINUTES = 60;
/** A heartbeat's measurements hold since the heartbeat before, if that came no longer ago than this many intervals. */
const HOLDS_INTERVALS = 1.5;

/**
 * The sums and counts of values in the newest minutes of one worker, by the minute's number; its sparkline shows them.
 */
type Minutes = Map<number, [sum: number, count: number]>;

/** Records what workers measured, by their heartbeats. */
export class WorkerHistory {
  readonly #history: History;
  /** The tokens per second of each worker. */
  readonly #minutes = new Map<string, Minutes>();

  constructor(history: History) {
    this.#history = history;
  }

  /** Adds a heartbeat. @param before when the heartbeat before came, epoch ms; null: there was none */
  heartbeat(workerId: string, beat: Heartbeat, at: number, before: number | null, intervalMs: number): void {
    const readings = readingsOf(beat);
    if (Object.keys(readings).length === 0) return;
    const holds = before !== null && at > before && at - before <= HOLDS_INTERVALS * intervalMs;
    const from = holds ? before - (before % DETAIL_MS) + DETAIL_MS : at;
    const subject = workerSubject(workerId);
    // A gap across the end of a chunk is filled on both sides.
    for (let start = chunkStart(Math.min(from, at)); start <= at; start += CHUNK_MS) {
      setReadings(this.#history.write(subject, start), Math.min(from, at), at, readings);
    }
    if (beat.tokens_per_second !== undefined)
      this.#addMinutes(workerId, Math.min(from, at), at, beat.tokens_per_second);
  }

  /**
   * Returns a worker's tokens per second in the newest 60 minutes, oldest first, and when the next minute begins, epoch
   * ms.
   */
  tokens(workerId: string, now: number): { values: (number | null)[]; until: number } {
    const sums = this.#minutesOf(workerId, now);
    const last = Math.floor(now / MINUTE_MS);
    const values = Array.from({ length: HOUR_MINUTES }, (_, index) => {
      const [sum, count] = sums.get(last - HOUR_MINUTES + 1 + index) ?? [0, 0];
      return count === 0 ? null : Number((sum / count).toPrecision(4));
    });
    return { values, until: (last + 1) * MINUTE_MS };
  }

  forget(workerId: string): void {
    this.#minutes.delete(workerId);
    this.#history.close(workerSubject(workerId));
  }

  #addMinutes(workerId: string, from: number, at: number, value: number): void {
    const sums = this.#minutesOf(workerId, at);
    for (let minute = Math.floor(from / MINUTE_MS); minute <= at / MINUTE_MS; minute++) {
      const [sum, count] = sums.get(minute) ?? [0, 0];
      sums.set(minute, [sum + value, count + 1]);
    }
    for (const minute of sums.keys()) if (minute <= at / MINUTE_MS - HOUR_MINUTES - 1) sums.delete(minute);
  }

  /** Returns a worker's minutes; after a restart they are read from the stored history. */
  #minutesOf(workerId: string, now: number): Minutes {
    const known = this.#minutes.get(workerId);
    if (known) return known;
    const minutes: Minutes = new Map();
    for (const chunk of this.#history.since(workerSubject(workerId), now - HOUR_MINUTES * MINUTE_MS)) {
      const column = rolledUp(chunk).columns.readings.tokens_per_second ?? [];
      for (const [index, value] of column.entries()) {
        if (value !== null) minutes.set(chunk.start / MINUTE_MS + index, [value, 1]);
      }
    }
    this.#minutes.set(workerId, minutes);
    return minutes;
  }
}

function workerSubject(id: string): Subject {
  return { kind: 'worker', id };
}

/** Returns the measurements of a heartbeat that are recorded; names as in HISTORY_SERIES. */
function readingsOf(beat: Heartbeat): Record<string, number> {
  const gpus = beat.gpus ?? [];
  const all = {
    tokens_per_second: beat.tokens_per_second,
    first_token_ms: beat.first_token_ms,
    running: beat.running,
    engine_running: beat.engine_running,
    engine_waiting: beat.engine_waiting,
    kv_cache_usage: beat.kv_cache_usage,
    gpu_utilization: mean(gpus, ({ utilization }) => utilization),
    gpu_memory_used_bytes: sum(gpus, ({ memory_used_bytes }) => memory_used_bytes),
    gpu_temperature_celsius: most(gpus, ({ temperature_celsius }) => temperature_celsius),
    gpu_power_watts: sum(gpus, ({ power_watts }) => power_watts),
  };
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

type Read = (gpu: GpuReading) => number | undefined;

function told(gpus: readonly GpuReading[], read: Read): number[] {
  return gpus.flatMap((gpu) => read(gpu) ?? []);
}

function sum(gpus: readonly GpuReading[], read: Read): number | undefined {
  const values = told(gpus, read);
  return values.length === 0 ? undefined : values.reduce((total, value) => total + value, 0);
}

function mean(gpus: readonly GpuReading[], read: Read): number | undefined {
  const values = told(gpus, read);
  return values.length === 0 ? undefined : (sum(gpus, read) ?? 0) / values.length;
}

function most(gpus: readonly GpuReading[], read: Read): number | undefined {
  const values = told(gpus, read);
  return values.length === 0 ? undefined : Math.max(...values);
}

/** Counts what happened to the requests of each model, by their records: one that stands for four counts as four. */
export class ModelHistory {
  readonly #history: History;

  constructor(history: History) {
    this.#history = history;
  }

  /** Adds requests to the history. @param known whether a worker serves the model: callers may ask for any name */
  count(records: readonly RequestRecord[], known: (model: string) => boolean, at: number): void {
    for (const [id, ofModel] of Map.groupBy(records, ({ model }) => model)) {
      if (id === '' || !known(id)) continue;
      const chunk = this.#history.write({ kind: 'model', id }, at);
      for (const record of ofModel) {
        addCounts(chunk, at, countsOf(record));
        addBuckets(chunk, at, bucketsOf(record));
      }
    }
  }
}

function countsOf({ outcome, tokens_in, tokens_out, cached_tokens, stands_for }: RequestRecord) {
  return {
    [outcome]: stands_for,
    tokens_in: (tokens_in ?? 0) * stands_for,
    tokens_out: (tokens_out ?? 0) * stands_for,
    tokens_cached: (cached_tokens ?? 0) * stands_for,
  };
}

function bucketsOf(record: RequestRecord): Record<string, Buckets> {
  const { worker_id, outcome, wait_ms, first_token_ms, total_ms, stands_for } = record;
  const one = (name: HistogramName, ms: number | null) => ({
    [name]: ms === null ? {} : { [bucketOf(HISTOGRAMS[name], ms)]: stands_for },
  });
  const succeeded = outcome === 'succeeded';
  return {
    ...one('wait', worker_id === null ? null : wait_ms),
    ...one('first_token', succeeded ? first_token_ms : null),
    ...one('per_token', succeeded ? perTokenMs(record) : null),
    ...one('duration', succeeded ? total_ms : null),
  };
}
