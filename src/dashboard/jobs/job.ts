import type { ListedJob } from '../../protocol/job-answers.ts';
import type { JobState } from '../../protocol/jobs.ts';

export function ms(iso: string | null): number | null {
  return iso === null ? null : Date.parse(iso);
}

/** From one time to another, ms; null where either is missing. */
export function between(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from));
}

export function isSettled(state: JobState): boolean {
  return state !== 'pending' && state !== 'leased';
}

/** `1 of 3`: attempts that were made or are being made, of those that it may have. */
export function attemptsOf({ attempts, max_attempts }: Pick<ListedJob, 'attempts' | 'max_attempts'>): string {
  return `${attempts} of ${max_attempts}`;
}
