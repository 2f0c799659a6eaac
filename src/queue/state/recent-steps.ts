import type { LedgerStep } from '../store/ledger-table.ts';
import type { WaitingJob } from './job.ts';
import { Newest } from './newest.ts';

/** Of the newest jobs; a busy gateway makes as many in seconds, and each takes about a kilobyte. */
const MOST_JOBS = 1000;
/** A job that is released again and again keeps its first steps. */
const MOST_STEPS = 100;

/** What happened to the newest jobs that lived in memory. It is gone with the object, like those jobs. */
export class RecentSteps {
  /** By job id. */
  readonly #jobs = new Newest<string, { tenant: string | null; steps: LedgerStep[] }>(MOST_JOBS);

  /** In order; null: no such job, or too long ago. */
  of(jobId: string): readonly LedgerStep[] | null {
    return this.#jobs.get(jobId)?.steps ?? null;
  }

  /** Whose job it is; null: nobody's. */
  tenantOf(jobId: string): string | null {
    return this.#jobs.get(jobId)?.tenant ?? null;
  }

  push(job: Pick<WaitingJob, 'id' | 'tenant'>, step: LedgerStep): void {
    const steps = this.#stepsOf(job);
    if (steps.length < MOST_STEPS) steps.push(step);
  }

  #stepsOf({ id, tenant }: Pick<WaitingJob, 'id' | 'tenant'>): LedgerStep[] {
    const known = this.#jobs.get(id);
    if (known) return known.steps;
    const steps: LedgerStep[] = [];
    this.#jobs.set(id, { tenant, steps });
    return steps;
  }
}
