import { isSettled } from '../../protocol/index.ts';
import { endUnfinished } from '../attempts/end.ts';
import { type JobsAction, maySee, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { retry } from './retry.ts';

/**
 * Cancels stored jobs, or has them tried again, all in one commit: the caller keeps them few. A job whose state no
 * longer allows it, that is gone, or that this viewer may not see stays as it is.
 * @returns how many were changed
 */
export function actOnJobs(core: Core, action: JobsAction, ids: readonly string[], viewer: Viewer): number {
  const act = action === 'retry' ? retried : cancelled;
  return ids.filter((id) => act(core, id, viewer)).length;
}

function retried(core: Core, id: string, viewer: Viewer): boolean {
  return retry(core, id, viewer)?.ok === true;
}

function cancelled(core: Core, id: string, viewer: Viewer): boolean {
  const job = core.stored.find(id);
  if (job === null || !maySee(viewer, job.tenant) || isSettled(job.state)) return false;
  endUnfinished(core, job, 'cancelled', 'cancelled', 'it was cancelled with all jobs that matched a filter');
  return true;
}
