import { FIRST_TOKEN_BOUNDS, type RequestRecord } from '../protocol/index.ts';
import type { WorkersFigures } from '../scheduler/rule-types.ts';
import { addTo, type Buckets, bucketOf, MINUTE_MS, percentilesOf } from './history/chunk.ts';

/** The work of one worker in one minute. */
interface Minute {
  /** The number of the minute since 1970. */
  minute: number;
  requests: number;
  errors: number;
  firstTokens: Buckets;
  tokens: number;
  /** The time in which `tokens` came. */
  seconds: number;
}

/** The minutes that figures look back on, the running one included. */
const MINUTES = 10;

/**
 * Figures of workers over the last ten minutes, from the requests that have ended and the attempts that failed. They
 * are in memory alone: after a restart they begin anew.
 */
export class WorkerFigures {
  readonly #byWorker = new Map<string, Minute[]>();

  /**
   * Adds what the queue reports.
   * @param failed the numbers of attempts that failed through their workers' fault, by worker
   */
  add(ended: readonly RequestRecord[], failed: Readonly<Record<string, number>>, now: number): void {
    for (const record of ended) this.#addRequest(record, now);
    for (const [workerId, count] of Object.entries(failed)) {
      const minute = this.#minute(workerId, now);
      minute.requests += count;
      minute.errors += count;
    }
  }

  /** Returns the figures of some workers together, such as those of one version. @param now epoch ms */
  of(workerIds: Iterable<string>, now: number): WorkersFigures {
    const first = minuteOf(now) - MINUTES + 1;
    const all = [...workerIds].flatMap((id) => this.#byWorker.get(id) ?? []);
    const minutes = all.filter(({ minute }) => minute >= first);
    const firstTokens: Buckets = {};
    for (const minute of minutes) addTo(firstTokens, minute.firstTokens);
    const percentiles = percentilesOf(firstTokens, FIRST_TOKEN_BOUNDS);
    const seconds = sum(minutes.map((minute) => minute.seconds));
    return {
      requests: sum(minutes.map(({ requests }) => requests)),
      errors: sum(minutes.map(({ errors }) => errors)),
      first_token_p50_ms: percentiles?.p50 ?? null,
      first_token_p95_ms: percentiles?.p95 ?? null,
      tokens_per_second: seconds > 0 ? sum(minutes.map(({ tokens }) => tokens)) / seconds : null,
    };
  }

  /** Forgets the workers that have done nothing for ten minutes. @param now epoch ms */
  bound(now: number): void {
    const first = minuteOf(now) - MINUTES + 1;
    for (const [id, minutes] of this.#byWorker) if (minutes.at(-1)!.minute < first) this.#byWorker.delete(id);
  }

  #addRequest(record: RequestRecord, now: number): void {
    const { worker_id, outcome, error_code, stands_for: count, tokens_out, total_ms, wait_ms } = record;
    const status = Number(/^http_(\d+)$/.exec(error_code ?? '')?.[1] ?? 0);
    // What failed otherwise is among the failed attempts, or proves nothing of the worker.
    if (worker_id === null || (outcome !== 'succeeded' && status === 0)) return;
    const minute = this.#minute(worker_id, now);
    minute.requests += count;
    if (status >= 500) minute.errors += count;
    if (outcome !== 'succeeded') return;
    const firstToken = record.first_token_ms;
    if (firstToken !== null)
      addTo(minute.firstTokens, { [bucketOf(FIRST_TOKEN_BOUNDS, firstToken - wait_ms)]: count });
    // The tokens after the first one come from the time of the first one on.
    const tokens = firstToken === null ? (tokens_out ?? 0) : (tokens_out ?? 0) - 1;
    const seconds = (total_ms - (firstToken ?? wait_ms)) / 1000;
    if (tokens <= 0 || seconds <= 0) return;
    minute.tokens += tokens * count;
    minute.seconds += seconds * count;
  }

  #minute(workerId: string, now: number): Minute {
    const number = minuteOf(now);
    const minutes = this.#byWorker.get(workerId) ?? [];
    this.#byWorker.set(workerId, minutes);
    const last = minutes.at(-1);
    if (last?.minute === number) return last;
    const minute = { minute: number, requests: 0, errors: 0, firstTokens: {}, tokens: 0, seconds: 0 };
    minutes.push(minute);
    if (minutes.length > MINUTES) minutes.shift();
    return minute;
  }
}

function minuteOf(now: number): number {
  return Math.floor(now / MINUTE_MS);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
