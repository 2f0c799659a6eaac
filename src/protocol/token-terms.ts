import type { Limits, RateLimits, TokenView } from './tokens.ts';

/**
 * The names of a token's limits. They do not stand beside their schema: the page imports them, and its content security
 * policy forbids what zod compiles.
 */
export const RATE_LIMITS = [
  'requests_per_minute',
  'tokens_per_minute',
  'tokens_per_day',
  'tokens_per_month',
  'dollars_per_day',
  'dollars_per_month',
  'running',
] as const;

type Terms = Pick<TokenView, 'limits' | 'weight' | 'default_priority' | 'highest_priority'>;

/** Says what a token may use: `60 requests/min, qwen-*: 8 at a time, weight 2`; `none`. */
export function termsText({ limits, weight, default_priority, highest_priority }: Terms): string {
  const texts = [
    limits && limitsText(limits),
    default_priority && `priority ${default_priority}`,
    highest_priority && `priority up to ${highest_priority}`,
    weight && weight !== 1 && `weight ${weight}`,
  ];
  return texts.filter(Boolean).join(', ') || 'none';
}

function limitsText({ models = {}, tenant, ...all }: Limits): string {
  const of = Object.entries(models).map(([pattern, own]) => `${pattern}: ${ratesText(own)}`);
  return [ratesText(all), ...of, tenant && `its tenant: ${ratesText(tenant)}`].filter(Boolean).join(', ');
}

function ratesText(limits: RateLimits): string {
  const { requests_per_minute, tokens_per_minute, tokens_per_day, tokens_per_month, running } = limits;
  const { dollars_per_day, dollars_per_month } = limits;
  return [
    requests_per_minute && `${requests_per_minute} requests/min`,
    tokens_per_minute && `${tokens_per_minute} tokens/min`,
    tokens_per_day && `${tokens_per_day} tokens/day`,
    tokens_per_month && `${tokens_per_month} tokens/month`,
    dollars_per_day && `$${dollars_per_day}/day`,
    dollars_per_month && `$${dollars_per_month}/month`,
    running && `${running} at a time`,
  ]
    .filter(Boolean)
    .join(', ');
}
