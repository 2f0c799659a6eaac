import type { Timing } from '../../protocol/index.ts';
import type { Job, StoredJob, WaitingJob } from '../job.ts';

/** Returns when the caller requested the job, epoch ms: the first time, however often the gateway asks again. */
export function submittedAt(job: Job): number {
  return job.mode === 'stored' ? job.created_at : job.submitted_at;
}

/** Returns when a worker was first given the job, epoch ms; null if none was. */
export function givenAt(job: Job): number | null {
  return beginningOf(job)?.given_at ?? job.leased_at;
}

/**
 * Returns when the caller had its first token, epoch ms; null if that is not known.
 * @param at when the attempt ended that reported this timing, epoch ms
 */
export function firstTokenAt(job: Job, at: number, timing: Timing | undefined): number | null {
  const begun = beginningOf(job);
  if (begun !== null) return begun.first_token_at;
  if (job.leased_at === null || timing?.first_token_ms === undefined) return null;
  return Math.min(at, Math.round(job.leased_at + timing.first_token_ms));
}

/** Returns an attempt's times from the durations its worker reports: clocks of two machines are never compared. */
export function timesOf(
  { leased_at }: Pick<StoredJob, 'leased_at'>,
  now: number,
  timing: Timing = {},
): Pick<StoredJob, 'started_at' | 'first_token_at'> {
  const at = (ms: number | undefined) =>
    ms === undefined || leased_at === null ? null : Math.min(now, Math.round(leased_at + ms));
  return { started_at: at(timing.started_ms), first_token_at: at(timing.first_token_ms) };
}

/** Returns how a moved answer began, since its newest worker reports only the rest; null if it was not moved. */
function beginningOf(job: Job): WaitingJob['begun'] {
  return job.mode === 'waiting' ? job.begun : null;
}
