import type { Usage } from '../../protocol/index.ts';
import type { Job } from '../state/job.ts';
import type { Core } from '../state/state.ts';

/** Tokens of its prompt that its worker was supposed to have when it got this job. Asked while it has its slot. */
export function predictedTokens(core: Core, { id, worker_id }: Job, { prompt_tokens }: Usage): number {
  const worker = worker_id === null ? null : core.workers.byId(worker_id);
  return Math.round((worker?.predicted.get(id) ?? 0) * prompt_tokens);
}

/** Those that the engine reports. Some engines do not. */
export function seenTokens({ prompt_tokens, cached_tokens = 0 }: Usage): number {
  return Math.min(cached_tokens, prompt_tokens);
}
