import type { Timing } from '../../protocol/index.ts';
import type { StoredJob } from '../store/jobs-table.ts';
import type { Job, WaitingJob } from './job.ts';

/** When its caller asked for it, epoch ms: the first time, however often the gateway asks again. */
export function submittedAt(job: Job): number {
  return job.mode === 'stored' ? job.created_at : job.submitted_at;
}

/** When a worker was first given it, epoch ms; null: none was. */
export function givenAt(job: Job): number | null {
  return beginningOf(job)?.given_at ?? job.leased_at;
}

/**
 * When its caller had its first token, epoch ms; null: it is not known.
 * @param at when the attempt ended that told this timing
 */
export function firstTokenAt(job: Job, at: number, timing: Timing | undefined): number | null {
  const begun = beginningOf(job);
  if (begun !== null) return begun.first_token_at;
  if (job.leased_at === null || timing?.first_token_ms === undefined) return null;
  return Math.min(at, Math.round(job.leased_at + timing.first_token_ms));
}

/** The worker reports durations since the job came to it: clocks of two machines are never compared. */
export function timesOf(
  { leased_at }: Pick<StoredJob, 'leased_at'>,
  now: number,
  timing: Timing = {},
): Pick<StoredJob, 'started_at' | 'first_token_at'> {
  const at = (ms: number | undefined) =>
    ms === undefined || leased_at === null ? null : Math.min(now, Math.round(leased_at + ms));
  return { started_at: at(timing.started_ms), first_token_at: at(timing.first_token_ms) };
}

/** Of an answer that was moved: its newest worker tells only of the rest. */
function beginningOf(job: Job): WaitingJob['begun'] {
  return job.mode === 'waiting' ? job.begun : null;
}
