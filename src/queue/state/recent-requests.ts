import type { RequestRecord } from '../../protocol/index.ts';
import type { LedgerStep } from '../store/ledger-table.ts';
import type { WaitingJob } from './job.ts';
import { Newest } from './newest.ts';
import type { Outcome } from './pool-counts.ts';
import type { UsageEntry } from './usage-entry.ts';

/** A request comes at most this long after its cancellation, ms. */
const GONE_MS = 60_000;
/** The gateway asks again within a second, or not at all; ms. */
const DECIDED_AFTER_MS = 5000;
/** Entries of the kinds that take a few bytes. */
const MOST = 10_000;
/** Of the newest jobs; a busy gateway makes as many in seconds, and a ledger takes about a kilobyte. */
const MOST_JOBS = 1000;
/** A job that is released again and again keeps its first steps. */
const MOST_STEPS = 100;

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
 * What is remembered of callers' requests beside their jobs, by id and in memory, like those jobs:
 *
 * | what                               | how long               | since                                             |
 * | ---------------------------------- | ---------------------- | ------------------------------------------------- |
 * | its caller hung up                 | 60 s                   | the cancellation may overtake the request         |
 * | its attempt failed or was released | 5 s, or asked for again | the gateway alone knows whether it makes another |
 * | what it was counted as             | the newest 1,000       | nobody got that if the gateway asks again         |
 * | its ledger                         | the newest 1,000       | it shows where the time of a request went         |
 */
export class RecentRequests {
  readonly #now: () => number;
  /** Epoch ms of the cancellation. */
  readonly #gone = new Newest<string, number>(MOST);
  /** The oldest first. */
  readonly #undecided = new Map<string, UndecidedJob & { until: number }>();
  readonly #counted = new Newest<string, { atMs: number; entry: UsageEntry }>(MOST_JOBS);
  readonly #ledgers = new Newest<string, { tenant: string | null; steps: LedgerStep[] }>(MOST_JOBS);

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The gateway cancels an id only when its caller is gone, and never asks again under it. */
  callerGone(jobId: string): void {
    this.#gone.set(jobId, this.#now());
  }

  isCallerGone(jobId: string): boolean {
    const at = this.#gone.get(jobId);
    return at !== undefined && this.#now() - at <= GONE_MS;
  }

  /** Its attempt failed, or was released. */
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

  /** It is asked for again. @returns null: it was not undecided */
  takeUndecided(jobId: string): UndecidedJob | null {
    const job = this.#undecided.get(jobId) ?? null;
    this.#undecided.delete(jobId);
    return job;
  }

  /** Takes those that nobody asked for again. */
  takeDecided(): UndecidedJob[] {
    const decided: UndecidedJob[] = [];
    for (const job of this.#undecided.values()) {
      if (job.until > this.#now() && this.#undecided.size <= MOST) break;
      this.#undecided.delete(job.id);
      decided.push(job);
    }
    return decided;
  }

  /** Epoch ms at which `takeDecided` has one; null: none is undecided. */
  get nextDecided(): number | null {
    for (const { until } of this.#undecided.values()) return until;
    return null;
  }

  /** It ended, and was counted as this. */
  counted(jobId: string, entry: UsageEntry): void {
    this.#counted.set(jobId, { atMs: this.#now(), entry });
  }

  wasCounted(jobId: string): boolean {
    return this.#counted.has(jobId);
  }

  /** The request is there again. @returns what it was counted as, and when; null: it was not counted */
  takeCounted(jobId: string): { atMs: number; entry: UsageEntry } | null {
    const counted = this.#counted.get(jobId) ?? null;
    this.#counted.delete(jobId);
    return counted;
  }

  /** Its ledger in order; null: no such job, or too long ago. */
  steps(jobId: string): readonly LedgerStep[] | null {
    return this.#ledgers.get(jobId)?.steps ?? null;
  }

  /** Whose job it is; null: nobody's. */
  tenantOf(jobId: string): string | null {
    return this.#ledgers.get(jobId)?.tenant ?? null;
  }

  pushStep({ id, tenant }: Pick<WaitingJob, 'id' | 'tenant'>, step: LedgerStep): void {
    const ledger = this.#ledgers.get(id) ?? { tenant, steps: [] };
    if (ledger.steps.length === 0) this.#ledgers.set(id, ledger);
    if (ledger.steps.length < MOST_STEPS) ledger.steps.push(step);
  }
}
