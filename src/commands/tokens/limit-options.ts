import { UserError } from '../../process/index.ts';
import { Limits, RATE_LIMITS, type RateLimits } from '../../protocol/index.ts';

/** Options of `token create` and `token set`, as they are written: `60`, `600,qwen-*=60` by model, `none`. */
export interface LimitOptions {
  requestsPerMinute?: string;
  tokensPerMinute?: string;
  tokensPerDay?: string;
  tokensPerMonth?: string;
  running?: string;
}

type LimitName = keyof RateLimits;

const OPTIONS: Record<LimitName, { key: keyof LimitOptions; flag: string }> = {
  requests_per_minute: { key: 'requestsPerMinute', flag: '--requests-per-minute' },
  tokens_per_minute: { key: 'tokensPerMinute', flag: '--tokens-per-minute' },
  tokens_per_day: { key: 'tokensPerDay', flag: '--tokens-per-day' },
  tokens_per_month: { key: 'tokensPerMonth', flag: '--tokens-per-month' },
  running: { key: 'running', flag: '--running' },
};

/**
 * The limits of a token with those that the options name in the place of what it had of the same kind.
 * @returns null: it has none; undefined: no option names any
 * @throws UserError that names the option
 */
export function limitsIn(options: LimitOptions, before: Limits | null): Limits | null | undefined {
  const given = RATE_LIMITS.filter((name) => options[OPTIONS[name].key] !== undefined);
  if (given.length === 0) return undefined;
  const limits = structuredClone(before ?? {});
  for (const name of given) put(limits, name, options[OPTIONS[name].key]!);
  const models = Object.entries(limits.models ?? {}).filter(([, of]) => Object.keys(of).length > 0);
  delete limits.models;
  if (models.length > 0) limits.models = Object.fromEntries(models);
  const parsed = Limits.safeParse(limits);
  if (!parsed.success) throw new UserError(`Limits by model: ${parsed.error.issues[0]?.message}.`);
  return Object.keys(limits).length === 0 ? null : limits;
}

function put(limits: Limits, name: LimitName, text: string): void {
  delete limits[name];
  for (const of of Object.values(limits.models ?? {})) delete of[name];
  if (text.trim() === 'none') return;
  for (const part of text.split(',')) {
    const at = part.lastIndexOf('=');
    const amount = amountIn(part.slice(at + 1), name, text);
    if (at < 0) limits[name] = amount;
    else {
      limits.models ??= {};
      const pattern = part.slice(0, at).trim();
      limits.models[pattern] = { ...limits.models[pattern], [name]: amount };
    }
  }
}

function amountIn(part: string, name: LimitName, text: string): number {
  const amount = /^\s*\d{1,13}\s*$/.test(part) ? Number(part) : 0;
  if (amount >= 1 && amount <= 1e12) return amount;
  throw new UserError(
    `${OPTIONS[name].flag} "${text}": expected a whole number from 1, by model as in "600,qwen-*=60", or "none".`,
  );
}
