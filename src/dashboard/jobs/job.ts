import type { ListedJob } from '../../protocol/job-answers.ts';
import type { JobState } from '../../protocol/jobs.ts';

export function ms(iso: string | null): number | null {
  return iso === null ? null : Date.parse(iso);
}

/** Returns the ms from one time to another, or null where either is missing. */
export function between(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from));
}

export function isSettled(state: JobState): boolean {
  return state !== 'pending' && state !== 'leased';
}

/** Returns the attempts that were made or are being made, of those that the job may have: `1 of 3`. */
export function attemptsOf({ attempts, max_attempts }: Pick<ListedJob, 'attempts' | 'max_attempts'>): string {
  return `${attempts} of ${max_attempts}`;
}
