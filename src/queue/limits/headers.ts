import type { RateLimits } from '../../protocol/index.ts';
import type { Rates } from './account.ts';

/**
 * OpenAI's headers on how far a caller is from its limits: of requests and of tokens, each by the limit that has least
 * left. @param rates of all limits that hold for the request
 */
export function rateLimitHeaders(rates: readonly Rates[], now: number): Record<string, string> {
  return {
    ...headersOf('requests', 'requests_per_minute', rates, now),
    ...headersOf('tokens', 'tokens_per_minute', rates, now),
  };
}

function headersOf(
  of: 'requests' | 'tokens',
  limit: keyof RateLimits,
  rates: readonly Rates[],
  now: number,
): Record<string, string> {
  let tightest: { most: number; left: number; resetAt: number } | null = null;
  for (const own of rates) {
    const most = own.limits[limit];
    if (most === undefined) continue;
    const left = Math.max(0, most - own[of]);
    if (tightest === null || left < tightest.left) {
      tightest = { most, left, resetAt: own[`${of}_reset_at`] };
    }
  }
  if (tightest === null) return {};
  return {
    [`x-ratelimit-limit-${of}`]: String(tightest.most),
    [`x-ratelimit-remaining-${of}`]: String(tightest.left),
    [`x-ratelimit-reset-${of}`]: durationText(tightest.resetAt - now),
  };
}

/** As OpenAI writes it: `350ms`, `12.5s`, `1m0s`. */
function durationText(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.ceil(ms))}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = Math.round((ms - minutes * 60_000) / 10) / 100;
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`;
}
