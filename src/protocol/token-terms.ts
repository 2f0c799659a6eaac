import type { Budgets, Limits, RateLimits, TokenView } from './tokens.ts';

/** The facts about a limit from which all places show it. */
interface LimitFacts {
  unit: 'number' | 'dollars';
  /** Whether it counts all of a day or month; all tokens of a tenant may have one together. */
  isBudget: boolean;
  /** The word for what is limited, behind its amount: `requests`. */
  what: string;
  per: string;
  /** Both at once, in little room. */
  short: string;
  /** Explains the option of `token create` and `token set`. */
  help: string;
}

/**
 * A token's limits: a new one without its row does not compile. They do not stand beside their schema: the page imports
 * them, and its content security policy forbids what zod compiles.
 */
export const LIMITS = {
  requests_per_minute: {
    unit: 'number',
    isBudget: false,
    what: 'requests',
    per: 'a minute',
    short: 'requests/min',
    help: "most requests a minute, by model too: '600,qwen-*=60'; none removes the limit",
  },
  tokens_per_minute: {
    unit: 'number',
    isBudget: false,
    what: 'tokens',
    per: 'a minute',
    short: 'tokens/min',
    help: 'most tokens of prompts and answers a minute, in the same form',
  },
  tokens_per_day: {
    unit: 'number',
    isBudget: true,
    what: 'tokens',
    per: 'a day',
    short: 'tokens/day',
    help: 'most tokens from midnight to midnight in UTC, in the same form',
  },
  tokens_per_month: {
    unit: 'number',
    isBudget: true,
    what: 'tokens',
    per: 'a month',
    short: 'tokens/month',
    help: 'most tokens a month, in the same form',
  },
  dollars_per_day: {
    unit: 'dollars',
    isBudget: true,
    what: 'US dollars',
    per: 'a day',
    short: '/day',
    help: 'most US dollars a day, as far as the price of workers is known',
  },
  dollars_per_month: {
    unit: 'dollars',
    isBudget: true,
    what: 'US dollars',
    per: 'a month',
    short: '/month',
    help: 'most US dollars a month',
  },
  running: {
    unit: 'number',
    isBudget: false,
    what: 'requests',
    per: 'at a time',
    short: 'at a time',
    help: 'most requests and stored jobs that run at a time, in the same form',
  },
} as const satisfies {
  [Name in LimitName]: LimitFacts & { isBudget: Name extends keyof Budgets ? true : false };
};

export type LimitName = keyof RateLimits;

export const RATE_LIMITS = Object.keys(LIMITS) as LimitName[];

/** The limits that all tokens of a tenant may have together. */
export const TENANT_LIMITS = RATE_LIMITS.filter((name): name is keyof Budgets => LIMITS[name].isBudget);

/** Returns what a limit is of: `requests a minute`. */
export function limitWords(name: LimitName): string {
  const { what, per } = LIMITS[name];
  return `${what} ${per}`;
}

/** The words for a token that stores less than it could. */
const STORE_WORDS = { allow: null, deny: 'stores nothing', off: 'stores when asked' } as const;

type Terms = Pick<TokenView, 'limits' | 'weight' | 'default_priority' | 'highest_priority'> &
  Partial<Pick<TokenView, 'store' | 'stored_bytes' | 'keep'>>;

/** Says what a token may use: `60 requests/min, qwen-*: 8 at a time, weight 2`; `none`. */
export function termsText({ limits, weight, default_priority, highest_priority, ...of }: Terms): string {
  const texts = [
    limits && limitsText(limits),
    default_priority && `priority ${default_priority}`,
    highest_priority && `priority up to ${highest_priority}`,
    weight && weight !== 1 && `weight ${weight}`,
    of.store && STORE_WORDS[of.store],
    of.stored_bytes && `${grouped(of.stored_bytes)} bytes stored`,
    of.keep != null && (of.keep ? 'requests kept' : 'requests never kept'),
  ];
  return texts.filter(Boolean).join(', ') || 'none';
}

function limitsText({ models = {}, tenant, ...all }: Limits): string {
  const of = Object.entries(models).map(([pattern, own]) => `${pattern}: ${ratesText(own)}`);
  return [ratesText(all), ...of, tenant && `its tenant: ${ratesText(tenant)}`].filter(Boolean).join(', ');
}

function ratesText(limits: RateLimits): string {
  return RATE_LIMITS.flatMap((name) => {
    const { unit, short } = LIMITS[name];
    const amount = limits[name];
    if (!amount) return [];
    return unit === 'dollars' ? `$${grouped(amount)}${short}` : `${grouped(amount)} ${short}`;
  }).join(', ');
}

/** Returns a number whose digits can be counted, and none is left out: `50,000,000`, `0.0125`. */
function grouped(amount: number): string {
  return amount.toLocaleString('en-US', { maximumFractionDigits: 20 });
}
