import { perTokenMs, type RequestRecord, tokensPerSecond } from '../../protocol/request-record.ts';

export interface Side {
  /** A median, or a share from 0 to 1; null: nothing is known. */
  value: number | null;
  /** The number of requests from which the value is computed. */
  n: number;
}

export interface Measure {
  name: string;
  kind: 'duration' | 'rate' | 'share';
  worker: Side;
  pool: Side;
  /** The worker's value divided by the pool's; null: that says nothing. */
  times: number | null;
  /** Whether the worker is far worse than the pool, in enough requests to tell. */
  isWorse: boolean;
}

/** A difference below this factor counts as chance. */
const FAR = 1.5;
const ENOUGH = 10;
/** Fewer failures than this count as chance, however many requests there were. */
const ENOUGH_FAILURES = 5;

/**
 * Compares the times of requests at a worker with those at the other workers of its pool.
 * @param worker the requests that ended at the worker
 * @param pool the requests of its pool; those of the worker are left out
 */
export function compare(
  workerId: string,
  worker: readonly RequestRecord[],
  pool: readonly RequestRecord[],
): Measure[] {
  // Requests that got no worker say nothing about one.
  const others = pool.filter(({ worker_id }) => worker_id !== null && worker_id !== workerId);
  const medians = (of: (record: RequestRecord) => number | null) => [median(worker, of), median(others, of)];
  const rows: [name: string, kind: Measure['kind'], sides: Side[]][] = [
    ['First token, from its slot on', 'duration', medians(firstTokenMs)],
    ['Between tokens', 'duration', medians(perTokenMs)],
    ['Tokens/s of an answer', 'rate', medians(tokensPerSecond)],
    ['Failed', 'share', [failed(worker), failed(others)]],
  ];
  return rows.map(([name, kind, sides]) => {
    const [worker, pool] = sides as [Side, Side];
    const times = worker.value === null || !pool.value ? null : worker.value / pool.value;
    const worse = kind === 'rate' ? 1 / (times ?? 1) : (times ?? 1);
    return {
      name,
      kind,
      worker,
      pool,
      times,
      isWorse: worse >= FAR && isTelling(kind, worker) && pool.n >= ENOUGH,
    };
  });
}

function isTelling(kind: Measure['kind'], { value, n }: Side): boolean {
  return n >= ENOUGH && (kind !== 'share' || Math.round((value ?? 0) * n) >= ENOUGH_FAILURES);
}

function firstTokenMs({ first_token_ms, wait_ms }: RequestRecord): number | null {
  return first_token_ms === null ? null : Math.max(0, first_token_ms - wait_ms);
}

/** Returns the median; each record counts as many times as the requests that it stands for. */
function median(records: readonly RequestRecord[], of: (record: RequestRecord) => number | null): Side {
  const known = records
    .flatMap((record) => {
      const value = of(record);
      return value === null ? [] : [{ value, weight: record.stands_for }];
    })
    .sort((a, b) => a.value - b.value);
  const half = known.reduce((sum, { weight }) => sum + weight, 0) / 2;
  let passed = 0;
  for (const { value, weight } of known) {
    passed += weight;
    if (passed >= half) return { value, n: known.length };
  }
  return { value: null, n: 0 };
}

/**
 * Returns the share of failures. Callers that hung up are no failures, and a deadline that passed is not the worker's.
 */
function failed(records: readonly RequestRecord[]): Side {
  const sum = (some: readonly RequestRecord[]) => some.reduce((sum, { stands_for }) => sum + stands_for, 0);
  const ended = records.filter(({ outcome }) => outcome === 'succeeded' || outcome === 'failed');
  if (ended.length === 0) return { value: null, n: 0 };
  return { value: sum(ended.filter(({ outcome }) => outcome === 'failed')) / sum(ended), n: ended.length };
}
