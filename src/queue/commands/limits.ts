import type { Limits, LimitView, RateLimits } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';

/** Limits of tokens were changed, without a request of theirs. @param changed by the name of the token; null: none any more */
export function tellLimits(core: Core, changed: Record<string, Limits | null>): void {
  for (const [tokenName, limits] of Object.entries(changed)) core.limits.tell(tokenName, limits);
}

/** How every token with limits stands. */
export function limits(core: Core): LimitView[] {
  const views: LimitView[] = [];
  for (const { token_name, held, standings } of core.limits.standings()) {
    for (const { models, limits, requests, tokens, day, month, running } of standings) {
      if (Object.keys(limits).length === 0) continue;
      const of = (used: number, name: keyof RateLimits) => ({ used, limit: limits[name] ?? null });
      views.push({
        token_name,
        models,
        requests_per_minute: of(requests, 'requests_per_minute'),
        tokens_per_minute: of(tokens, 'tokens_per_minute'),
        tokens_per_day: of(day, 'tokens_per_day'),
        tokens_per_month: of(month, 'tokens_per_month'),
        running: of(running, 'running'),
        held: models === null ? held : 0,
      });
    }
  }
  return views;
}
