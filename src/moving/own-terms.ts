import type { MovePlan } from '../protocol/index.ts';
import type { Cut } from './cut.ts';
import { routeOf, TEXT_TOKENS } from './plan.ts';
import { unknownMember } from './sampling.ts';

/** The most tokens that a plan may name, more than the context of any engine holds. */
const MOST_TOKENS = 1e8;

/** The terms that the gateway read from the request itself. */
export interface OwnTerms {
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
