import { readText } from '../../engine/client/types.ts';
import { type EngineRequest, jsonOrText, type Usage } from '../../protocol/index.ts';
import { idsAsked } from '../answers/token-ids.ts';
import { finalFailure, JobFailure } from '../failure.ts';
import type { Attempt } from './attempt.ts';

type Body = Record<string, unknown>;

/** The most tokens that can wait for the rest of a character, which has at most four bytes. */
const MOST_UNFINISHED = 4;

/** The character that stands for bytes that do not make a whole character. */
const UNFINISHED = '\ufffd';

/** The failure of an engine that cannot continue from token ids. */
export class NotContinued extends JobFailure {
  constructor(message: string) {
    super({ message, code: 'engine_error', retryable: false });
  }
}

/**
 * Returns the request for the rest of an answer, without the tokens at the end of its prompt that do not make a whole
 * character yet: nothing of them has been passed on, and vLLM would begin its answer with the text of the prompt.
 * @throws JobFailure
 */
export async function atWholeCharacter(attempt: Attempt, request: EngineRequest): Promise<EngineRequest> {
  const body = jsonOrText(Buffer.from(request.body ?? '').toString()) as Body;
  const ids = idsAsked(body);
  if (ids === null) throw finalFailure('invalid_request', 'payload.continues: the body has no token ids');
  // The request asks the engine for token ids, in which no character can be cut.
  if (Array.isArray(body.token_ids)) return request;
  const generated = ids.length - request.continues!.prompt_tokens;
  let dropped = 0;
  while (dropped < Math.min(generated, MOST_UNFINISHED)) {
    const tail = ids.slice(Math.max(0, ids.length - dropped - 16), ids.length - dropped);
    if (!(await textOf(attempt, tail)).endsWith(UNFINISHED)) break;
    dropped += 1;
  }
  return dropped === 0 ? request : { ...request, body: JSON.stringify(without(body, ids, dropped)) };
}

function without(body: Body, ids: readonly number[], dropped: number): Body {
  const kept = ids.slice(0, ids.length - dropped);
  const more = (name: string) => (typeof body[name] === 'number' ? { [name]: body[name] + dropped } : {});
  return {
    ...body,
    ...(Array.isArray(body.prompt) ? { prompt: kept } : { kv_transfer_params: { prompt_token_ids: kept } }),
    ...more('max_tokens'),
    ...more('max_completion_tokens'),
    ...more('min_tokens'),
  };
}

async function textOf(attempt: Attempt, tokens: readonly number[]): Promise<string> {
  const answer = await attempt.engine.request({
    method: 'POST',
    path: '/detokenize',
    headers: {},
    requestId: attempt.jobId,
    signal: attempt.signal,
    contentType: 'application/json',
    body: JSON.stringify({ model: attempt.servedModel, tokens }),
  });
  const { prompt } = Object(jsonOrText(await readText(answer.body)));
  if (answer.status === 200 && typeof prompt === 'string') return prompt;
  throw new NotContinued(`the engine does not tell the text of tokens: HTTP ${answer.status}`);
}

/**
 * Returns the usage of a whole answer, computed from the usage of its last part: the tokens of that part's prompt
 * beyond the caller's prompt were generated.
 * @param from the ids that the last part continued from
 */
export function wholeUsage(
  usage: Usage | null,
  { continues }: EngineRequest,
  from: readonly number[] | null,
): Usage | null {
  if (usage === null || !continues || from === null) return usage;
  const prompt_tokens = continues.prompt_tokens;
  const generated = Math.max(usage.prompt_tokens, from.length) - prompt_tokens;
  const { reasoning_tokens: _, ...counted } = usage;
  return {
    ...counted,
    prompt_tokens,
    completion_tokens: usage.completion_tokens + generated,
    ...(usage.cached_tokens !== undefined && { cached_tokens: Math.min(usage.cached_tokens, prompt_tokens) }),
  };
}
