import type { RequestRecord } from '../../protocol/index.ts';

/** A cancellation overtakes its request by at most this many ms. */
const GONE_MS = 60_000;
/** A request counts as ended after this many ms: the gateway asks again within a second, or not at all. */
const DECIDED_AFTER_MS = 5000;
/** The most entries of each kind that takes a few bytes. */
const MOST = 10_000;

export interface UndecidedJob {
  id: string;
  config_id: string;
  /** The time of the caller's request, epoch ms. */
  submitted_at: number;
  /** The job's outcome, unless the gateway asks again. */
  outcome: 'failed' | 'rejected';
  /** The request's record, complete except for its outcome. */
  record?: RequestRecord;
}

/**
 * Remembers, beside the waiting jobs, facts about callers' requests, by job id and in memory alone:
 *
 * | what                               | how long               | why                                               |
 * | ---------------------------------- | ---------------------- | ------------------------------------------------- |
 * | its caller hung up                 | 60 s                   | the cancellation may overtake the request         |
 * | its attempt failed or was released | 5 s, or asked for again | the gateway alone knows whether it makes another |
 */
export class RecentRequests {
  readonly #now: () => number;
  /** The time at which each caller hung up, epoch ms, by job id. */
  readonly #gone = new Newest<string, number>(MOST);
  /** Jobs whose attempt failed or was released, by id, the oldest first. */
  readonly #undecided = new Map<string, UndecidedJob & { until: number }>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Notes that a caller is gone: the gateway cancels an id only then, and never asks again under it. */
  callerGone(jobId: string): void {
    this.#gone.set(jobId, this.#now());
  }

  isCallerGone(jobId: string): boolean {
    const at = this.#gone.get(jobId);
    return at !== undefined && this.#now() - at <= GONE_MS;
  }

  /** Adds a job whose attempt failed or was released. */
  addUndecided(job: UndecidedJob): void {
    this.#undecided.delete(job.id);
    this.#undecided.set(job.id, { ...job, until: this.#now() + DECIDED_AFTER_MS });
  }

  isUndecided(jobId: string): boolean {
    return this.#undecided.has(jobId);
  }

  noteUndecided(jobId: string, record: RequestRecord): void {
    const job = this.#undecided.get(jobId);
    if (job) job.record = record;
  }

  /** Takes a job that the gateway asks for again. @returns null if it was not undecided */
  takeUndecided(jobId: string): UndecidedJob | null {
    const job = this.#undecided.get(jobId) ?? null;
    this.#undecided.delete(jobId);
    return job;
  }

  /** Takes the jobs that the gateway did not ask for again. */
  takeDecided(): UndecidedJob[] {
    const decided: UndecidedJob[] = [];
    for (const job of this.#undecided.values()) {
      if (job.until > this.#now() && this.#undecided.size <= MOST) break;
      this.#undecided.delete(job.id);
      decided.push(job);
    }
    return decided;
  }

  /** Epoch ms at which `takeDecided` has a job; null if none is undecided. */
  get nextDecided(): number | null {
    for (const { until } of this.#undecided.values()) return until;
    return null;
  }
}

/** A map of the newest entries: beyond `most` it forgets the oldest. A key that is set again is the newest. */
export class Newest<K, V> extends Map<K, V> {
  readonly #most: number;

  constructor(most: number) {
    super();
    this.#most = most;
  }

  override set(key: K, value: V): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#most) this.delete(this.keys().next().value!);
    return this;
  }
}
