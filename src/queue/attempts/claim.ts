import type { Failure, JobRef, JobState } from '../../protocol/index.ts';
import type { Worker } from '../state/worker.ts';

/**
 * The verdicts on what a worker may still do with an attempt. The newest fence token wins, from the worker that it was
 * given to, even after the lease ran out, as long as no other worker got the job since.
 *
 * | verdict         | the job                                              | settle               | renew | release | register |
 * | --------------- | ---------------------------------------------------- | -------------------- | ----- | ------- | -------- |
 * | `held`          | is leased to this worker under this token            | counts               | kept  | counts  | resumed  |
 * | `lapsed`        | is pending again, and no other worker got it since   | a result counts      | lost  | –       | resumed  |
 * | `settled_by_it` | was settled by this attempt                          | acknowledged again   | kept  | –       | –        |
 * | `stale`         | was given to another, or ended without this attempt  | stale                | lost  | –       | revoked  |
 * | `unknown`       | is neither stored nor in memory                      | unknown, or its slot | kept  | –       | resumed  |
 *
 * `unknown` may be a waiting job from before a restart of the queue: its relay knows whether its caller
 * still waits, and cancels it if not.
 */
export type Claim = 'held' | 'lapsed' | 'settled_by_it' | 'stale' | 'unknown';

/** The facts about a job, stored or in memory, that decide what its newest attempt may do. */
export interface Claimed {
  state: JobState;
  fence_token: number;
  /** The worker of the newest attempt, even when the attempt is over. */
  worker_id: string | null;
  /** JSON of the failure that settled the job. */
  error?: string | null;
}

/** Returns what this worker may still do with an attempt. */
export function claimOf(job: Claimed | null, worker: Worker, attempt: Pick<JobRef, 'fence_token'>): Claim {
  if (job !== null && job.worker_id !== worker.session.worker_id) return 'stale';
  return claimByToken(job, attempt);
}

/**
 * Does the work of `claimOf` where something other than the session proves who the worker is, as the key to an
 * attempt's files does.
 */
export function claimByToken(job: Claimed | null, { fence_token }: Pick<JobRef, 'fence_token'>): Claim {
  if (job === null) return 'unknown';
  // A job that no worker was ever given has the token 0.
  if (job.fence_token !== fence_token || fence_token === 0) return 'stale';
  if (job.state === 'leased') return 'held';
  if (job.state === 'pending') return 'lapsed';
  return isSettledByWorker(job) ? 'settled_by_it' : 'stale';
}

/**
 * Says whether the worker itself reported the job's end. A job that the queue failed because its worker was gone may
 * still run there.
 */
function isSettledByWorker({ state, error }: Claimed): boolean {
  if (state !== 'failed' || error == null) return state === 'succeeded';
  const { code } = JSON.parse(error) as Failure;
  return code !== 'lease_expired' && code !== 'worker_died';
}
