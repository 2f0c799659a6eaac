import type { Rates } from './account.ts';

/** The headers' whole names: composing them for every answer would take longer than the rest of this file. */
const NAMES = {
  requests: {
    limit: 'requests_per_minute',
    reset: 'requests_reset_at',
    headers: ['x-ratelimit-limit-requests', 'x-ratelimit-remaining-requests', 'x-ratelimit-reset-requests'],
  },
  tokens: {
    limit: 'tokens_per_minute',
    reset: 'tokens_reset_at',
    headers: ['x-ratelimit-limit-tokens', 'x-ratelimit-remaining-tokens', 'x-ratelimit-reset-tokens'],
  },
} as const;

/**
 * Makes OpenAI's headers on how far a caller is from its limits of requests and tokens, each for the limit that has the
 * least left.
 * @param rates the usage of all limits that hold for the request
 */
export function rateLimitHeaders(rates: readonly Rates[], now: number): Record<string, string> {
  const headers: Record<string, string> = {};
  addHeaders(headers, 'requests', rates, now);
  addHeaders(headers, 'tokens', rates, now);
  return headers;
}

function addHeaders(
  headers: Record<string, string>,
  of: keyof typeof NAMES,
  rates: readonly Rates[],
  now: number,
): void {
  const { limit, reset, headers: names } = NAMES[of];
  let tightest: { most: number; left: number; resetAt: number } | null = null;
  for (const own of rates) {
    const most = own.limits[limit];
    if (most === undefined) continue;
    const left = Math.max(0, most - own[of]);
    if (tightest === null || left < tightest.left) tightest = { most, left, resetAt: own[reset] };
  }
  if (tightest === null) return;
  headers[names[0]] = String(tightest.most);
  headers[names[1]] = String(tightest.left);
  headers[names[2]] = durationText(tightest.resetAt - now);
}

/** Writes a duration as OpenAI does: `350ms`, `12.5s`, `1m0s`. */
function durationText(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.ceil(ms))}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = Math.round((ms - minutes * 60_000) / 10) / 100;
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`;
}
