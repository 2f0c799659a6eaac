import type { RequestRecord } from '../../protocol/index.ts';
import type { Outcome } from './pool-counts.ts';

/** The gateway asks again within a second, or not at all; ms. */
const DECIDED_AFTER_MS = 5000;
/** Beyond so many, the oldest are decided early. */
const MOST_JOBS = 10_000;

export interface UndecidedJob {
  id: string;
  config_id: string;
  /** Epoch ms when its caller's request came. */
  submitted_at: number;
  /** How it ended, unless the gateway asks again. */
  outcome: Outcome;
  /** As it will be listed, but for its outcome. */
  record?: RequestRecord;
}

/**
 * Requests of callers whose attempt failed, or was released. Only the gateway knows whether another attempt is made:
 * how such a request ended is known when nobody has asked again for a while.
 */
export class Undecided {
  /** By id, the oldest first. */
  readonly #jobs = new Map<string, UndecidedJob & { until: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  add(job: UndecidedJob): void {
    this.#jobs.delete(job.id);
    this.#jobs.set(job.id, { ...job, until: this.#now() + DECIDED_AFTER_MS });
  }

  has(jobId: string): boolean {
    return this.#jobs.has(jobId);
  }

  note(jobId: string, record: RequestRecord): void {
    const job = this.#jobs.get(jobId);
    if (job) job.record = record;
  }

  /** It is asked for again. @returns null: it was not one of these */
  take(jobId: string): UndecidedJob | null {
    const job = this.#jobs.get(jobId) ?? null;
    this.#jobs.delete(jobId);
    return job;
  }

  /** Takes those that nobody asked for again. */
  takeDecided(): UndecidedJob[] {
    const decided: UndecidedJob[] = [];
    for (const job of this.#jobs.values()) {
      if (job.until > this.#now() && this.#jobs.size <= MOST_JOBS) break;
      this.#jobs.delete(job.id);
      decided.push(job);
    }
    return decided;
  }

  /** Epoch ms at which the next one is decided; null: there is none. */
  get soonest(): number | null {
    for (const { until } of this.#jobs.values()) return until;
    return null;
  }
}
