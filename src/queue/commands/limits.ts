import type { LimitView } from '../../protocol/index.ts';
import type { ToldLimits } from '../rpc.ts';
import type { Core } from '../state/state.ts';

/** Takes changed limits of tokens that arrive without a request. */
export function tellLimits(core: Core, changed: readonly ToldLimits[]): void {
  for (const told of changed) core.limits.tell(told);
}

/** Returns the usage and limits of every token that has limits. */
export function limits(core: Core): LimitView[] {
  return [...core.limits.standings()].flatMap(({ standings, ...whose }) =>
    standings
      .filter(({ limits }) => Object.keys(limits).length > 0)
      .map(({ models, limits, requests, tokens, budgets, running }) => ({
        token_name: whose.token_name,
        tenant: whose.tenant,
        models,
        requests_per_minute: { used: requests, limit: limits.requests_per_minute ?? null },
        tokens_per_minute: { used: tokens, limit: limits.tokens_per_minute ?? null },
        tokens_per_day: { used: budgets.tokens_per_day, limit: limits.tokens_per_day ?? null },
        tokens_per_month: { used: budgets.tokens_per_month, limit: limits.tokens_per_month ?? null },
        dollars_per_day: { used: budgets.dollars_per_day, limit: limits.dollars_per_day ?? null },
        dollars_per_month: { used: budgets.dollars_per_month, limit: limits.dollars_per_month ?? null },
        running: { used: running, limit: limits.running ?? null },
        held: models === null ? whose.held : 0,
      })),
  );
}
