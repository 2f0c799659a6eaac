import type { JobState } from '../../protocol/jobs.ts';

/** What the page reads of a job: queue/store/job-view.ts makes it. Times are ISO. */
export interface JobSummary {
  id: string;
  job_type: string;
  config_id: string;
  state: JobState;
  priority: number;
  attempts: number;
  max_attempts: number;
  stream: boolean;
  worker_id: string | null;
  progress: number | null;
  status_message: string | null;
  created_at: string;
  deadline_at: string | null;
  leased_at: string | null;
  started_at: string | null;
  first_token_at: string | null;
  settled_at: string | null;
  tenant: string | null;
  error: { code: string; message: string } | null;
}

export interface JobPage {
  jobs: JobSummary[];
  next: string | null;
}

export interface LedgerStep {
  at: string;
  step: string;
  attempt: number;
  fence_token: number;
  worker_id: string | null;
  detail: string | null;
}

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
export function attemptsOf({
  attempts,
  max_attempts,
}: Pick<JobSummary, 'attempts' | 'max_attempts'>): string {
  return `${attempts} of ${max_attempts}`;
}
