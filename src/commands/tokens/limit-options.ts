import { UserError } from '../../process/exit-codes.ts';
import {
  type Budgets,
  LIMITS,
  type LimitName,
  Limits,
  limitWords,
  RATE_LIMITS,
  schemaWords,
  TENANT_LIMITS,
} from '../../protocol/index.ts';

interface Option<Name extends LimitName> {
  name: Name;
  flag: string;
  /** The option's name in commander. */
  key: string;
}

const OPTIONS = RATE_LIMITS.map((name) => optionOf(name, name));

/** The limits of the tenant: a tenant has them for all models alone. */
const TENANT_OPTIONS = TENANT_LIMITS.map((name) => optionOf(name, `tenant_${name}`));

function optionOf<Name extends LimitName>(name: Name, option: string): Option<Name> {
  const key = option.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  return { name, flag: `--${option.replaceAll('_', '-')}`, key };
}

type Camel<Text extends string> = Text extends `${infer Word}_${infer Rest}`
  ? `${Word}${Capitalize<Camel<Rest>>}`
  : Text;

/** The options of `token create` and `token set` as texts: `60`, `600,qwen-*=60` by model, `none`. */
export type LimitOptions = { [Key in Camel<LimitName | `tenant_${keyof Budgets}`>]?: string };

/** The flags of all limits with what they are. */
export const LIMIT_FLAGS = [
  ...OPTIONS.map(({ name, flag }) => ({ flag, help: LIMITS[name].help as string })),
  ...TENANT_OPTIONS.map(({ name, flag }) => {
    return { flag, help: `most ${limitWords(name)} of all tokens of its tenant; none removes the limit` };
  }),
];

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
  known: readonly Option<Name>[],
  options: LimitOptions,
): (Option<Name> & { text: string })[] {
  return known.flatMap((option) => {
    const text = (options as Record<string, unknown>)[option.key];
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
  const { form, least, expected } = LIMITS[name].unit === 'dollars' ? DOLLARS : WHOLE;
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
