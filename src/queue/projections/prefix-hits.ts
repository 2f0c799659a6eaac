import type { Usage } from '../../protocol/index.ts';
import type { Job } from '../state/job.ts';
import type { Core } from '../state/state.ts';

/** Returns how many prompt tokens the worker supposedly had when it got the job. Call it while the job has its slot. */
export function predictedTokens(core: Core, { id, worker_id }: Job, { prompt_tokens }: Usage): number {
  const worker = worker_id === null ? null : core.workers.byId(worker_id);
  return Math.round((worker?.predicted.get(id) ?? 0) * prompt_tokens);
}

/** Returns how many prompt tokens the engine reports that it had; 0 for engines that do not report it. */
export function seenTokens({ prompt_tokens, cached_tokens = 0 }: Usage): number {
  return Math.min(cached_tokens, prompt_tokens);
}
