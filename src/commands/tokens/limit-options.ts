import { UserError } from '../../process/index.ts';
import { type Budgets, Limits, type RateLimits, schemaWords } from '../../protocol/index.ts';

type LimitName = keyof RateLimits;

/** The limit of each option, and its flag, by the option's name in commander. */
const OPTIONS = {
  requestsPerMinute: { name: 'requests_per_minute', flag: '--requests-per-minute' },
  tokensPerMinute: { name: 'tokens_per_minute', flag: '--tokens-per-minute' },
  tokensPerDay: { name: 'tokens_per_day', flag: '--tokens-per-day' },
  tokensPerMonth: { name: 'tokens_per_month', flag: '--tokens-per-month' },
  dollarsPerDay: { name: 'dollars_per_day', flag: '--dollars-per-day' },
  dollarsPerMonth: { name: 'dollars_per_month', flag: '--dollars-per-month' },
  running: { name: 'running', flag: '--running' },
} as const satisfies Record<string, { name: LimitName; flag: string }>;

/** The limits of the tenant by option. A tenant has limits for all models together only. */
const TENANT_OPTIONS = {
  tenantTokensPerDay: { name: 'tokens_per_day', flag: '--tenant-tokens-per-day' },
  tenantTokensPerMonth: { name: 'tokens_per_month', flag: '--tenant-tokens-per-month' },
  tenantDollarsPerDay: { name: 'dollars_per_day', flag: '--tenant-dollars-per-day' },
  tenantDollarsPerMonth: { name: 'dollars_per_month', flag: '--tenant-dollars-per-month' },
} as const satisfies Record<string, { name: keyof Budgets; flag: string }>;

/** The options of `token create` and `token set` as texts: `60`, `600,qwen-*=60` by model, `none`. */
export type LimitOptions = { [Key in keyof typeof OPTIONS | keyof typeof TENANT_OPTIONS]?: string };

/** The flags of all limits. */
export const LIMIT_FLAGS = [...Object.values(OPTIONS), ...Object.values(TENANT_OPTIONS)].map(
  ({ flag }) => flag,
);

/**
 * Returns the limits of a token, where those that the options name replace earlier ones of the same kind.
 * @returns null: the token has none; undefined: no option names any
 * @throws UserError that names the option
 */
export function limitsIn(options: LimitOptions, before: Limits | null): Limits | null | undefined {
  const own = given(OPTIONS, options);
  const ofTenant = given(TENANT_OPTIONS, options);
  if (own.length + ofTenant.length === 0) return undefined;
  const { models: modelsBefore = {}, tenant: tenantBefore = {}, ...limits } = structuredClone(before ?? {});
  const models = new Map(Object.entries(modelsBefore));
  for (const { name, flag, text } of own) {
    for (const of of [limits, ...models.values()]) delete of[name];
    for (const { pattern, amount } of amountsIn(text, name, flag)) {
      if (pattern === null) limits[name] = amount;
      else models.set(pattern, { ...models.get(pattern), [name]: amount });
    }
  }
  for (const { name, flag, text } of ofTenant) {
    delete tenantBefore[name];
    for (const { pattern, amount } of amountsIn(text, name, flag)) {
      if (pattern !== null) throw new UserError(`${flag} "${text}": a tenant's budget is of all models.`);
      tenantBefore[name] = amount;
    }
  }
  const byModel = Object.fromEntries([...models].filter(([, of]) => !isEmpty(of)));
  const all: Limits = {
    ...limits,
    ...(!isEmpty(tenantBefore) && { tenant: tenantBefore }),
    ...(!isEmpty(byModel) && { models: byModel }),
  };
  const parsed = Limits.safeParse(all, { error: schemaWords });
  if (!parsed.success) throw new UserError(`${parsed.error.issues[0]?.message} (in the limits by model).`);
  return isEmpty(all) ? null : all;
}

/** Returns those of these options that are given. */
function given<Name extends LimitName>(
  known: Record<string, { name: Name; flag: string }>,
  options: Record<string, unknown>,
): { name: Name; flag: string; text: string }[] {
  return Object.entries(known).flatMap(([key, option]) => {
    const text = options[key];
    return typeof text === 'string' ? [{ ...option, text }] : [];
  });
}

const WHOLE = { form: /^\s*\d{1,13}\s*$/, least: 1, expected: 'a whole number from 1' };
const DOLLARS = {
  form: /^\s*\d{1,9}(\.\d{1,6})?\s*$/,
  least: 0.01,
  expected: 'US dollars, 0.01 at the least',
};

/** Returns the amounts in an option's text; empty for `none`. @throws UserError */
function amountsIn(
  text: string,
  name: LimitName,
  flag: string,
): { pattern: string | null; amount: number }[] {
  if (text.trim() === 'none') return [];
  const { form, least, expected } = name.startsWith('dollars') ? DOLLARS : WHOLE;
  return text.split(',').map((part) => {
    const at = part.lastIndexOf('=');
    const amount = form.test(part.slice(at + 1)) ? Number(part.slice(at + 1)) : 0;
    if (part.slice(0, at).trim() === '__proto__')
      throw new UserError(`${flag} "${text}": "__proto__" is no name of a model.`);
    if (amount >= least && amount <= 1e12)
      return { pattern: at < 0 ? null : part.slice(0, at).trim(), amount };
    throw new UserError(
      `${flag} "${text}": expected ${expected}, by model as in "600,qwen-*=60", or "none".`,
    );
  });
}

function isEmpty(of: object): boolean {
  return Object.keys(of).length === 0;
}
