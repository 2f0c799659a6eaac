import { CHAT_MAX_TOKENS, fieldsOf, type Job, jsonOrText, type Usage } from '../../protocol/index.ts';
import { isJson } from './request-body.ts';

/** Returns the most tokens that a job may generate for each choice; null when it does not say, or generates none. */
export function maxTokensOf(job: Job): number | null {
  const payload = fieldsOf(job.payload);
  if ('path' in payload) {
    const body = fieldsOf(parsed(payload.body));
    return limitIn(body) ?? limitIn(fieldsOf(body.sampling_params));
  }
  if ('input' in payload) return runpodLimit(fieldsOf(payload.input));
  return 'messages' in payload ? (limitIn(payload) ?? CHAT_MAX_TOKENS) : null;
}

function parsed(body: unknown): unknown {
  if (body instanceof Uint8Array) return isJson(body) ? jsonOrText(new TextDecoder().decode(body)) : null;
  return typeof body === 'string' ? jsonOrText(body) : null;
}

/**
 * Returns the tokens generated for each choice of a finished completion, by the engine's own count; null: it does not
 * say.
 */
export function generatedTokens(completion: unknown): number | null {
  const { usage, choices } = fieldsOf(completion);
  const tokens = fieldsOf(usage).completion_tokens;
  if (typeof tokens !== 'number') return null;
  return tokens / (Array.isArray(choices) ? Math.max(1, choices.length) : 1);
}

/** Returns the usage that the engine reports in a whole answer in JSON; null: none. */
export function usageOf(answer: unknown): Usage | null {
  const { usage, model } = fieldsOf(answer);
  const counts = fieldsOf(usage);
  const prompt = countIn(counts.prompt_tokens);
  if (prompt === null) return null;
  const cached = countIn(fieldsOf(counts.prompt_tokens_details).cached_tokens);
  const reasoning = countIn(fieldsOf(counts.completion_tokens_details).reasoning_tokens);
  return {
    prompt_tokens: prompt,
    completion_tokens: countIn(counts.completion_tokens) ?? 0,
    ...(cached !== null && { cached_tokens: cached }),
    ...(reasoning !== null && { reasoning_tokens: reasoning }),
    ...(typeof model === 'string' && model.length <= 512 && { model }),
  };
}

function countIn(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null;
}

/** Returns the limit of the request that RunPod's input becomes; without a limit such a request generates little. */
function runpodLimit({ openai_input, body, sampling_params }: Record<string, unknown>): number | null {
  return limitIn(fieldsOf(openai_input ?? body ?? sampling_params));
}

function limitIn(body: Record<string, unknown>): number | null {
  const limit = body.max_completion_tokens ?? body.max_tokens;
  return typeof limit === 'number' && limit > 0 ? limit : null;
}
