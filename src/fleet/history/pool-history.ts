import {
  FIRST_TOKEN_BOUNDS,
  JOB_COUNTS,
  type PoolRates,
  type PoolTotals,
  QUEUE_WAIT_BOUNDS,
} from '../../protocol/index.ts';
import type { PoolShare, Subject } from '../rpc.ts';
import {
  addBuckets,
  addCounts,
  type Buckets,
  CHUNK_MS,
  DETAIL_MS,
  type HistogramName,
  MINUTE_MS,
  newInBuckets,
  ofEach,
  percentilesOf,
  rolledUp,
  setLevels,
  setPeaks,
} from './chunk.ts';
import { type History, KEPT_MS, keyOf } from './history.ts';

/** The queue's counts that are in the history already. */
export type Told = Pick<PoolShare, 'totals' | `${HistogramName}_buckets`>;

/** The levels of a pool, which hold until they change; names as in HISTORY_SERIES. */
export interface Levels extends Record<string, number> {
  waiting: number;
  running: number;
  slots: number;
  ready_workers: number;
  paused_workers: number;
  starting_workers: number;
  draining_workers: number;
  /** The number of workers in error, late or lost. */
  failed_workers: number;
  /** US dollars an hour of machines that were launched. */
  price_per_hour: number;
}

export const NOTHING: Levels = {
  waiting: 0,
  running: 0,
  slots: 0,
  ready_workers: 0,
  paused_workers: 0,
  starting_workers: 0,
  draining_workers: 0,
  failed_workers: 0,
  price_per_hour: 0,
};

/** How the jobs of a span of time ended, to compare with the objectives. */
export interface Met {
  succeeded: number;
  /** The number of jobs that failed, expired, or found no worker or slot. */
  failed: number;
  /** The times to the first token of callers on a connection, by FIRST_TOKEN_BOUNDS. */
  first_token: Buckets;
}

const FLEET: Subject = { kind: 'fleet', id: '' };

const TOTALS = ['submitted', ...JOB_COUNTS, 'tokens_predicted'] as const satisfies (keyof PoolTotals)[];

/** The series of counts, of a model's history too. */
export const COUNTED = [...TOTALS, 'preemptions'] as const;

/** The places in the vectors that are summed: the totals, then the buckets of the histograms. */
const WAIT_AT = TOTALS.length;
const FIRST_TOKEN_AT = WAIT_AT + QUEUE_WAIT_BOUNDS.length + 1;
const LIVE_AT = FIRST_TOKEN_AT + FIRST_TOKEN_BOUNDS.length + 1;
const LENGTH = LIVE_AT + FIRST_TOKEN_BOUNDS.length + 1;

interface Sums {
  minute: RollingSum;
  minutes: RollingSum;
  hour: RollingSum;
  day: RollingSum;
}

/** Counts what happened to the jobs of each pool and of all pools, by the queue's reports. */
export class PoolHistory {
  readonly #history: History;
  readonly #sums = new Map<string, Sums>();
  /** The levels as they were last written, by the subject. */
  readonly #levels = new Map<string, Levels>();

  constructor(history: History) {
    this.#history = history;
  }

  /** Adds what has come since the queue's last report. @param before null: this is its first */
  count(share: PoolShare, before: Told | null, at: number): void {
    const id = share.config_id;
    const sums = this.#sumsOf(id, at);
    const counts = newInTotals(share.totals, before?.totals);
    const buckets = ofEach((name) =>
      newInBuckets(share[`${name}_buckets`], before?.[`${name}_buckets`] ?? []),
    );
    const isNothing = Object.values(counts).every((count) => count === 0);
    if (isNothing && Object.values(buckets).every((one) => Object.keys(one).length === 0)) return;
    for (const subject of [poolSubject(id), FLEET]) {
      const chunk = this.#history.write(subject, at);
      addCounts(chunk, at, counts);
      addBuckets(chunk, at, buckets);
    }
    add(sums, at, vectorOf(counts, buckets));
  }

  /** Counts requests of a pool that an engine preempted. */
  preempted(configId: string, preemptions: number, at: number): void {
    for (const subject of [poolSubject(configId), FLEET])
      addCounts(this.#history.write(subject, at), at, { preemptions });
  }

  /** Notes the levels of all pools. Nothing is written where nothing has changed. */
  level(pools: ReadonlyMap<string, Levels>, at: number): void {
    for (const [id, levels] of pools) this.#level(poolSubject(id), levels, at);
    this.#level(FLEET, sumOf(pools.values()), at);
  }

  #level(subject: Subject, levels: Levels, at: number): void {
    const key = keyOf(subject);
    const before = this.#levels.get(key);
    if (before && Object.keys(levels).every((name) => before[name] === levels[name])) return;
    this.#levels.set(key, levels);
    const chunk = this.#history.write(subject, at);
    setLevels(chunk, at, levels);
    setPeaks(chunk, at, { waiting_most: Math.max(before?.waiting ?? 0, levels.waiting) });
  }

  /** Returns a pool's rates over the newest minute, hour and day. */
  rates(configId: string, now: number): { now: PoolRates; hour: PoolRates; day: PoolRates } {
    const { minute, hour, day } = this.#sumsOf(configId, now);
    return { now: ratesOf(minute.sum(now)), hour: ratesOf(hour.sum(now)), day: ratesOf(day.sum(now)) };
  }

  /** Returns how jobs ended over the newest five minutes and the newest hour, to compare with the objectives. */
  met(configId: string, now: number): { short: Met; long: Met } {
    const { minutes, hour } = this.#sumsOf(configId, now);
    return { short: metOf(minutes.sum(now)), long: metOf(hour.sum(now)) };
  }

  forget(configId: string): void {
    this.#sums.delete(configId);
    this.#levels.delete(keyOf(poolSubject(configId)));
    this.#history.close(poolSubject(configId));
  }

  /** Returns the sums of a pool; after a restart they are computed from the stored history. */
  #sumsOf(configId: string, now: number): Sums {
    const known = this.#sums.get(configId);
    if (known) return known;
    const sums = {
      minute: new RollingSum(DETAIL_MS, 6, LENGTH),
      minutes: new RollingSum(DETAIL_MS, 30, LENGTH),
      hour: new RollingSum(MINUTE_MS, 60, LENGTH),
      day: new RollingSum(CHUNK_MS, 144, LENGTH),
    };
    this.#sums.set(configId, sums);
    for (const chunk of this.#history.since(poolSubject(configId), now - KEPT_MS)) {
      const { counts, buckets } = rolledUp(chunk).columns;
      for (let minute = 0; minute < CHUNK_MS / MINUTE_MS; minute++) {
        const vector = vectorOf(
          Object.fromEntries(TOTALS.map((name) => [name, counts[name]?.[minute] ?? 0])),
          ofEach((name) => buckets[name]?.[minute] ?? {}),
        );
        add(sums, chunk.start + minute * MINUTE_MS, vector);
      }
    }
    return sums;
  }
}

function poolSubject(id: string): Subject {
  return { kind: 'pool', id };
}

function sumOf(all: Iterable<Levels>): Levels {
  const total = { ...NOTHING };
  for (const levels of all) for (const name of Object.keys(total)) total[name]! += levels[name] ?? 0;
  return total;
}

/** Returns how much the totals have grown. Totals that have become smaller began anew. */
function newInTotals(totals: PoolTotals, before: PoolTotals | undefined): Record<string, number> {
  const base = before && totals.submitted >= before.submitted ? before : undefined;
  return Object.fromEntries(TOTALS.map((name) => [name, Math.max(0, totals[name] - (base?.[name] ?? 0))]));
}

function vectorOf(
  counts: Record<string, number>,
  { wait, first_token, live_first_token }: Record<HistogramName, Buckets>,
): Float64Array {
  const vector = new Float64Array(LENGTH);
  for (const [index, name] of TOTALS.entries()) vector[index] = counts[name] ?? 0;
  const regions: [number, Buckets][] = [
    [WAIT_AT, wait],
    [FIRST_TOKEN_AT, first_token],
    [LIVE_AT, live_first_token],
  ];
  for (const [at, buckets] of regions) {
    for (const [bucket, count] of Object.entries(buckets)) vector[at + Number(bucket)] = count;
  }
  return vector;
}

function add(sums: Sums, at: number, vector: Float64Array): void {
  for (const one of Object.values(sums) as RollingSum[]) one.add(at, vector);
}

function ratesOf(vector: Float64Array): PoolRates {
  const totals = Object.fromEntries(TOTALS.map((name, index) => [name, vector[index]!]));
  return {
    ...(totals as unknown as PoolTotals),
    wait_ms: percentilesOf(bucketsOf(vector, WAIT_AT, FIRST_TOKEN_AT), QUEUE_WAIT_BOUNDS),
    first_token_ms: percentilesOf(bucketsOf(vector, FIRST_TOKEN_AT, LIVE_AT), FIRST_TOKEN_BOUNDS),
  };
}

function metOf(vector: Float64Array): Met {
  const of = (name: (typeof TOTALS)[number]) => vector[TOTALS.indexOf(name)]!;
  return {
    succeeded: of('succeeded'),
    failed: of('failed') + of('expired') + of('turned_away'),
    first_token: bucketsOf(vector, LIVE_AT, LENGTH),
  };
}

function bucketsOf(vector: Float64Array, from: number, to: number): Buckets {
  return Object.fromEntries([...vector.subarray(from, to).entries()].filter(([, count]) => count > 0));
}

/** Sums of vectors over a number of the newest steps. */
class RollingSum {
  readonly #stepMs: number;
  readonly #steps: number;
  readonly #length: number;
  /** The sum of each step by its number, in the order of their first addition. */
  readonly #byStep = new Map<number, Float64Array>();
  readonly #total: Float64Array;

  /** @param length of the vectors */
  constructor(stepMs: number, steps: number, length: number) {
    this.#stepMs = stepMs;
    this.#steps = steps;
    this.#length = length;
    this.#total = new Float64Array(length);
  }

  /** @param at epoch ms */
  add(at: number, values: Float64Array): void {
    const number = Math.floor(at / this.#stepMs);
    const step = this.#byStep.get(number) ?? new Float64Array(this.#length);
    this.#byStep.set(number, step);
    for (let index = 0; index < this.#length; index++) {
      step[index]! += values[index]!;
      this.#total[index]! += values[index]!;
    }
  }

  /**
   * Returns the sum of the steps up to the one of this moment. Callers must not keep it: it changes with the next call.
   */
  sum(now: number): Float64Array {
    const oldest = Math.floor(now / this.#stepMs) - this.#steps + 1;
    for (const [number, step] of this.#byStep) {
      if (number >= oldest) continue;
      this.#byStep.delete(number);
      for (let index = 0; index < this.#length; index++) this.#total[index]! -= step[index]!;
    }
    return this.#total;
  }
}
