import type { RequestRecord } from '../../protocol/index.ts';
import type { LedgerStep } from '../projections/ledger-table.ts';
import type { Outcome } from '../projections/pool-counts.ts';
import type { UsageEntry } from '../projections/usage-entry.ts';
import type { WaitingJob } from './job.ts';
import { Newest } from './newest.ts';

/** A cancellation overtakes its request by at most this many ms. */
const GONE_MS = 60_000;
/** A request counts as ended after this many ms: the gateway asks again within a second, or not at all. */
const DECIDED_AFTER_MS = 5000;
/** The most entries of each kind that takes a few bytes. */
const MOST = 10_000;
/**
 * The most jobs that are kept with more: a busy gateway makes as many in seconds, and a ledger takes about a kilobyte.
 */
const MOST_JOBS = 1000;
/** The most steps of one ledger: a job that is released again and again keeps its first steps. */
const MOST_STEPS = 100;

export interface UndecidedJob {
  id: string;
  config_id: string;
  /** When the caller's request came, epoch ms. */
  submitted_at: number;
  /** How the job ended, unless the gateway asks again. */
  outcome: Outcome;
  /** The record to be listed, but for its outcome. */
  record?: RequestRecord;
}

/**
 * What is remembered of callers' requests beside their jobs, by job id and in memory alone:
 *
 * | what                               | how long               | why                                               |
 * | ---------------------------------- | ---------------------- | ------------------------------------------------- |
 * | its caller hung up                 | 60 s                   | the cancellation may overtake the request         |
 * | its attempt failed or was released | 5 s, or asked for again | the gateway alone knows whether it makes another |
 * | what it was counted as             | the newest 1,000       | if the gateway asks again, nobody got that answer |
 * | its ledger                         | the newest 1,000       | it shows where the time of a request went         |
 */
export class RecentRequests {
  readonly #now: () => number;
  /** When each caller hung up, epoch ms, by job id. */
  readonly #gone = new Newest<string, number>(MOST);
  /** Jobs whose attempt failed or was released, by id, the oldest first. */
  readonly #undecided = new Map<string, UndecidedJob & { until: number }>();
  readonly #counted = new Newest<string, { atMs: number; entry: UsageEntry }>(MOST_JOBS);
  readonly #ledgers = new Newest<string, { tenant: string | null; steps: LedgerStep[] }>(MOST_JOBS);

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

  /** Notes what a job that ended was counted as. */
  counted(jobId: string, entry: UsageEntry): void {
    this.#counted.set(jobId, { atMs: this.#now(), entry });
  }

  wasCounted(jobId: string): boolean {
    return this.#counted.has(jobId);
  }

  /** Takes what a request that came again was counted as, and when. @returns null if it was not counted */
  takeCounted(jobId: string): { atMs: number; entry: UsageEntry } | null {
    const counted = this.#counted.get(jobId) ?? null;
    this.#counted.delete(jobId);
    return counted;
  }

  /** Returns the job's ledger in order; null if there is no such job or it ended too long ago. */
  steps(jobId: string): readonly LedgerStep[] | null {
    return this.#ledgers.get(jobId)?.steps ?? null;
  }

  /** Returns the job's tenant; null if it has none. */
  tenantOf(jobId: string): string | null {
    return this.#ledgers.get(jobId)?.tenant ?? null;
  }

  pushStep({ id, tenant }: Pick<WaitingJob, 'id' | 'tenant'>, step: LedgerStep): void {
    const ledger = this.#ledgers.get(id) ?? { tenant, steps: [] };
    if (ledger.steps.length === 0) this.#ledgers.set(id, ledger);
    if (ledger.steps.length < MOST_STEPS) ledger.steps.push(step);
  }
}
