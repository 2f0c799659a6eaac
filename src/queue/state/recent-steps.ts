import type { MemoryJob } from './job.ts';
import { Newest } from './newest.ts';

/** Of the newest jobs; a busy gateway makes as many in seconds, and each takes about a kilobyte. */
const MOST_JOBS = 1000;
/** A job that is released again and again keeps its first steps. */
const MOST_STEPS = 100;

/** One step of a job in memory; `at` in epoch ms. */
export interface RecentStep {
  at: number;
  step: string;
  attempt: number;
  fence_token: number;
  worker_id: string | null;
  detail: string | null;
}

/** What happened to the newest jobs that lived in memory. It is gone with the object, like those jobs. */
export class RecentSteps {
  /** By job id. */
  readonly #jobs = new Newest<string, { tenant: string | null; steps: RecentStep[] }>(MOST_JOBS);

  /** In order; null: no such job, or too long ago. */
  of(jobId: string): readonly RecentStep[] | null {
    return this.#jobs.get(jobId)?.steps ?? null;
  }

  /** Whose job it is; null: nobody's. */
  tenantOf(jobId: string): string | null {
    return this.#jobs.get(jobId)?.tenant ?? null;
  }

  push(job: Pick<MemoryJob, 'id' | 'tenant'>, step: RecentStep): void {
    const steps = this.#stepsOf(job);
    if (steps.length < MOST_STEPS) steps.push(step);
  }

  #stepsOf({ id, tenant }: Pick<MemoryJob, 'id' | 'tenant'>): RecentStep[] {
    const known = this.#jobs.get(id);
    if (known) return known.steps;
    const steps: RecentStep[] = [];
    this.#jobs.set(id, { tenant, steps });
    return steps;
  }
}
