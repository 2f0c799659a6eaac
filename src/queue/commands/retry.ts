import type { Failure } from '../../protocol/index.ts';
import { emit } from '../events/emit.ts';
import { maySee, type RetryAnswer, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';

/**
 * Tries a stored job that failed or expired again, at its caller's wish: under its id, with all its attempts and as
 * much time as it had.
 * @returns null if there is no such job, or none for this viewer
 */
export function retry(core: Core, jobId: string, viewer: Viewer): RetryAnswer | null {
  const job = core.stored.find(jobId);
  if (job === null || !maySee(viewer, job.tenant)) return null;
  if (job.state !== 'failed' && job.state !== 'expired') return { ok: false, state: job.state };
  const { message } = JSON.parse(job.error ?? '{}') as Partial<Failure>;
  emit(core, job, 'retried', `it was ${job.state}: ${message}`);
  return { ok: true, job: viewOf(core.sql, core.stored.retry(job)) };
}
