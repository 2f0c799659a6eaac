import { promptIds } from '../../src/simulator/text.ts';
import { PROMPT_TOKENS } from './continuable-answer.ts';
import type { CallerPlan } from './plan.ts';

/** From 4 KiB on a prompt may be prefilled elsewhere. */
const LONG_PROMPT_BYTES = 4200;

/** What a caller asks of an engine. */
export function callerRequest(
  { adapter, isLong, model, moves, streams }: CallerPlan,
  jobId: string,
): { path: string; body: object } {
  const path = '/v1/chat/completions';
  const all = { model: adapter ?? (model === 'name' ? model : 'tiny'), stream: streams };
  if (moves === null) return { path, body: { ...all, messages: [] } };
  const { form, maxTokens: max_tokens, asksUsage, stop } = moves;
  const counted = { ...all, ...(asksUsage && { stream_options: { include_usage: true } }) };
  if (form === 'tokens') {
    const token_ids = promptIds(jobId, PROMPT_TOKENS);
    return {
      path: '/inference/v1/generate',
      body: { ...counted, token_ids, sampling_params: { max_tokens } },
    };
  }
  const content = isLong ? jobId.padEnd(LONG_PROMPT_BYTES, '.') : jobId;
  const thinking = form === 'reasoning' && { include_reasoning: true };
  const messages = [{ role: 'user', content }];
  return { path, body: { ...counted, messages, max_tokens, ...thinking, ...(stop !== null && { stop }) } };
}
