import {
  type AnswerIdentity,
  type EngineRequest,
  type MovePlan,
  pack,
  type Stage,
} from '../protocol/index.ts';
import { routeOf, TEXT_TOKENS, unknownMember } from './plan.ts';

/** An answer that broke off between two of its events, with everything that its rest is made from. */
export interface Cut {
  plan: MovePlan;
  identity: AnswerIdentity;
  /** The token ids of the prompt, followed by those that the caller has been given. */
  ids: readonly number[];
  /** The number of these ids that are the prompt's. */
  promptTokens: number;
  stage: Stage;
}

/** Returns the number of tokens that the caller has been given. */
export function tokensGiven({ ids, promptTokens }: Cut): number {
  return ids.length - promptTokens;
}

/** The most tokens that a plan may name, more than the context of any engine holds. */
const MOST_TOKENS = 1e8;

/** The terms that the gateway read from the request itself. */
interface OwnTerms {
  route?: string | undefined;
  model: string | null;
  /** The lengths and priority that the gateway read; left out where it knows nothing of them. */
  terms?: { max_tokens: number | null; priority: number | null } | undefined;
}

/**
 * Returns the cut on the terms of the caller's own request. What is known of an answer comes from its worker, which may
 * lie: so model, lengths and priority are those that the gateway read, and other workers are asked for nothing that is
 * not known here.
 * @returns a text that says why where the answer is not moved
 */
export function onOwnTerms(cut: Cut, { route, model, terms }: OwnTerms): Cut | string {
  const { plan, promptTokens } = cut;
  const kind = routeOf(plan.path);
  if (kind === undefined || (route !== undefined && route !== plan.path))
    return 'its plan is of another route';
  if (!Number.isInteger(promptTokens) || promptTokens < 0) return 'its plan has no length of its prompt';
  const problem = unknownMember(plan.rest);
  if (problem !== null) return problem;
  const { model: _model, priority: _priority, stream: _stream, ...rest } = plan.rest;
  const own = terms?.max_tokens ?? (terms && kind === 'text' ? TEXT_TOKENS : null);
  const told = plan.max_tokens === null ? null : tokensIn(plan.max_tokens);
  const max_tokens = own === null ? told : Math.min(own, told ?? own);
  const min_tokens = Math.min(tokensIn(plan.min_tokens) ?? 0, max_tokens ?? MOST_TOKENS);
  const checked: MovePlan = {
    ...plan,
    rest: {
      ...rest,
      stream: true,
      ...(model !== null && { model }),
      ...(terms?.priority != null && { priority: terms.priority }),
    },
    max_tokens,
    max_tokens_field: kind === 'chat' ? plan.max_tokens_field : 'max_tokens',
    min_tokens,
  };
  return { ...cut, plan: checked };
}

/** Returns the count where it is a number of tokens, or null. */
function tokensIn(count: number): number | null {
  return Number.isInteger(count) && count >= 0 && count <= MOST_TOKENS ? count : null;
}

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
 * Makes the request for the rest of an answer, packed like a caller's (protocol/payloads.ts).
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
