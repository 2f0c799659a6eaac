import type { Limits, LimitView } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';

/** Limits of tokens were changed, without a request of theirs. @param changed by the name of the token; null: none any more */
export function tellLimits(core: Core, changed: Record<string, Limits | null>): void {
  for (const [tokenName, limits] of Object.entries(changed)) core.limits.tell(tokenName, limits);
}

/** How every token with limits stands. */
export function limits(core: Core): LimitView[] {
  const views: LimitView[] = [];
  for (const { token_name, held, standings } of core.limits.standings()) {
    for (const { models, limits, requests, tokens, running } of standings) {
      const { requests_per_minute = null, tokens_per_minute = null, running: atATime = null } = limits;
      if ([requests_per_minute, tokens_per_minute, atATime].every((limit) => limit === null)) continue;
      views.push({
        token_name,
        models,
        requests_per_minute: { used: requests, limit: requests_per_minute },
        tokens_per_minute: { used: tokens, limit: tokens_per_minute },
        running: { used: running, limit: atATime },
        held: models === null ? held : 0,
      });
    }
  }
  return views;
}
