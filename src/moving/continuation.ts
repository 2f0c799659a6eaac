import { type EngineRequest, pack } from '../protocol/index.ts';
import { type Cut, tokensGiven } from './cut.ts';
import { routeOf } from './plan.ts';

const encoder = new TextEncoder();

/** The messages of a continued chat, which engines do not read. */
const UNREAD_MESSAGES = [{ role: 'user', content: '.' }];

/** A request for the rest of an answer, whose body is JSON. */
type Continuation = Required<Pick<EngineRequest, 'method' | 'path' | 'content_type' | 'continues'>> & {
  body: string;
};

/**
 * Makes the request for the rest of an answer: the same sampling, with the ids of prompt and answer so far as prompt.
 */
export function continuationOf(cut: Cut): Continuation {
  const { plan } = cut;
  return {
    method: 'POST',
    path: plan.path,
    content_type: 'application/json',
    continues: { prompt_tokens: plan.first_prompt ?? cut.promptTokens },
    body: JSON.stringify(bodyOf(cut)),
  };
}

/**
 * Makes the request for the rest of an answer, packed like a caller's (protocol/packed-request.ts).
 * @param requestId the id under which engines know the request
 */
export function continuationRequest(cut: Cut, requestId: string): Uint8Array<ArrayBuffer> {
  const { body, ...request } = continuationOf(cut);
  const head = { ...request, headers: { 'x-request-id': requestId } };
  return pack(JSON.stringify(head), encoder.encode(body));
}

function bodyOf(cut: Cut): Record<string, unknown> {
  const { plan, ids } = cut;
  const { rest } = plan;
  const given = tokensGiven(cut);
  const left = {
    ...(plan.max_tokens !== null && { [plan.max_tokens_field]: plan.max_tokens - given }),
    ...(plan.min_tokens > given && { min_tokens: plan.min_tokens - given }),
  };
  const route = routeOf(plan.path);
  if (route === 'chat') {
    return { ...rest, messages: UNREAD_MESSAGES, kv_transfer_params: { prompt_token_ids: ids }, ...left };
  }
  if (route === 'text') return { ...rest, prompt: ids, ...left };
  const { min_tokens: _, ...sampling } = Object(rest.sampling_params);
  return { ...rest, token_ids: ids, sampling_params: { ...sampling, ...left } };
}

/** Says whether nothing is left to generate, since what is missing of the answer is known. */
export function isGenerated({ stage }: Cut): boolean {
  return stage !== 'running';
}

/** Returns the events that a fully generated answer still lacks. */
export function closingEvents(cut: Cut): Uint8Array {
  const { plan, identity, stage, promptTokens } = cut;
  const completion = tokensGiven(cut);
  const usage = {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completion,
    completion_tokens: completion,
  };
  const counted = `data: ${JSON.stringify({ ...identity, choices: [], usage })}\n\n`;
  const isCounted = stage !== 'finished' || !plan.includes_usage;
  return encoder.encode(`${isCounted ? '' : counted}${stage === 'closed' ? '' : 'data: [DONE]\n\n'}`);
}
