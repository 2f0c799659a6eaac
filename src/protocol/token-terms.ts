import type { Limits, RateLimits } from './token-limits.ts';
import type { TokenView } from './token-view.ts';

type Terms = Pick<TokenView, 'limits' | 'weight' | 'default_priority' | 'highest_priority'>;

/** What a token may use, as people are shown it: `60 requests/min, qwen-*: 8 at a time, weight 2`; `none`. */
export function termsText({ limits, weight, default_priority, highest_priority }: Terms): string {
  const texts = [
    limits && limitsText(limits),
    default_priority && `priority ${default_priority}`,
    highest_priority && `priority up to ${highest_priority}`,
    weight && weight !== 1 && `weight ${weight}`,
  ];
  return texts.filter(Boolean).join(', ') || 'none';
}

function limitsText({ models = {}, ...all }: Limits): string {
  const of = Object.entries(models).map(([pattern, own]) => `${pattern}: ${ratesText(own)}`);
  return [ratesText(all), ...of].filter(Boolean).join(', ');
}

function ratesText({ requests_per_minute, tokens_per_minute, running }: RateLimits): string {
  return [
    requests_per_minute && `${requests_per_minute} requests/min`,
    tokens_per_minute && `${tokens_per_minute} tokens/min`,
    running && `${running} at a time`,
  ]
    .filter(Boolean)
    .join(', ');
}
