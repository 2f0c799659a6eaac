import { limitWords, type Waiting, waitsFor } from '../protocol/index.ts';
import type { Rates } from './account.ts';
import type { OverLimit } from './scope.ts';
import { isBudget } from './windows.ts';

/** Words what is said of a limit: why a job is refused or waits, and how far a caller is from its limits. */

/** A job that is refused: a limit of its token is reached, or as much waits already as may. */
export interface Refusal {
  kind: 'refused';
  reason: 'over_limit' | 'queue_full';
  message: string;
  retry_after_seconds: number;
  headers?: Record<string, string>;
}

/** The `Retry-After` where a running request has to end first, s: nobody knows when it will. */
const RETRY_WHEN_BUSY_SECONDS = 1;

/**
 * Words why a request is refused, and when a retry may help.
 * @param saidHowLong whether the caller stated how long it waits; the words then need not suggest that
 * @param rates the usage of all limits that hold for the request
 */
export function refusalOf(
  tokenName: string | null,
  over: OverLimit,
  saidHowLong: boolean,
  rates: readonly Rates[],
  now: number,
): Refusal {
  const seconds = over.opens_at === null ? RETRY_WHEN_BUSY_SECONDS : (over.opens_at - now) / 1000;
  const how =
    isBudget(over.limit) && over.opens_at !== null
      ? `it resets at ${new Date(over.opens_at).toISOString()}`
      : `try again in ${Math.ceil(seconds)} s${saidHowLong ? '' : ', or wait for it with the header X-Queue-Wait: 60'}`;
  return {
    kind: 'refused',
    reason: 'over_limit',
    message: `${clauseOf(tokenName, over)}: ${how}`,
    retry_after_seconds: seconds,
    headers: rateLimitHeaders(rates, now),
  };
}

/** Words what a stored job waits for that is held back. @param over null if an earlier job of its token goes first */
export function waitOf(tokenName: string | null, over: OverLimit | null): Waiting {
  const name = tokenName ?? '';
  if (over === null)
    return waitsFor('limit', `the token "${name}" has limits, and an earlier job of it goes first`);
  const advice =
    over.limit === 'unknown'
      ? null
      : isBudget(over.limit)
        ? `An operator can raise the budget: worker-vllm token set ${name}.`
        : `It goes on by itself. An operator can raise the limit: worker-vllm token set ${name}.`;
  return waitsFor('limit', clauseOf(name, over), { until: over.opens_at, advice });
}

/** Words the limit as a clause: `the token "a" has reached its limit of 60 requests a minute`. */
function clauseOf(tokenName: string | null, { limit, most, models, tenant }: OverLimit): string {
  const token = `the token "${tokenName ?? ''}"`;
  if (limit === 'unknown') return `the queue has started again and does not know yet what runs for ${token}`;
  const who = tenant === null ? token : `the tenant "${tenant}"`;
  const of = models === null ? '' : ` for "${models}"`;
  return `${who} has reached its limit of ${most} ${limitWords(limit)}${of}`;
}

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
