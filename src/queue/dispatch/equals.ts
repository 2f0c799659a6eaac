import type { Job, MadeBy } from '../job.ts';
import type { Core } from '../state/state.ts';
import type { Worker } from '../state/worker.ts';
import type { Scorer } from './choose.ts';

/**
 * Gives the rest of an answer to workers that serve what the worker served that made its beginning: the same model, in
 * the same revision, with the same tokenizer. Anything else would make another answer of its tokens.
 */
export const EQUALS: Scorer = {
  fits: (core, worker, job) => mayBeGiven(core, worker, job),
};

/** Says whether the worker serves what the job's answer began with; any does where nothing has begun. */
export function mayBeGiven(core: Core, worker: Worker, job: Job): boolean {
  // A stored job that nobody goes on with is made anew.
  return job.mode === 'stored' || job.made_by === null || goesOnExactly(core, worker, job, job.made_by);
}

/** Says whether the worker would go on with an answer of the job as if it had made the beginning. */
export function goesOnExactly(
  core: Core,
  { session }: Worker,
  { config_id }: Pick<Job, 'config_id'>,
  { worker_id, model_identity }: MadeBy,
): boolean {
  if (model_identity !== undefined && session.model_identity)
    return model_identity === session.model_identity;
  // Older workers do not say what they serve: then those of one pool and version are taken for equals.
  const maker = worker_id === null ? null : core.workers.lastOf(worker_id);
  const before = maker?.session ?? { config_id, version: null };
  return before.config_id === session.config_id && (before.version ?? null) === (session.version ?? null);
}
