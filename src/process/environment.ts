import * as z from 'zod';
import { expectationWords } from '../protocol/schema-words.ts';
import { UserError } from './exit-codes.ts';
import { MASK } from './secrets.ts';

/** Building blocks for variables, so that each kind of value is read the same way everywhere. */
export const variable = {
  text: () => z.string().trim().min(1),
  /** @param check throws what is wrong with a text */
  checkedText: (check: (text: string) => unknown) =>
    variable.text().superRefine((text, context) => {
      try {
        check(text);
      } catch (error) {
        context.addIssue({ code: 'custom', message: (error as Error).message });
      }
    }),
  url: (...protocols: string[]) =>
    // Blanks around it are nothing to a URL, but everything to what puts a path behind its text.
    z
      .string()
      .trim()
      .refine((text) => isUrl(text, protocols), {
        error: `expected a URL starting with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`,
      })
      // `fetch` takes none, and says the whole address, password included, where it refuses it.
      .refine((text) => !/^https?:$/.test(protocolOf(text)) || !CREDENTIALS.test(text), {
        error: 'expected no user name and password in it: they would not be sent',
      }),
  integer: (min: number, max = Number.MAX_SAFE_INTEGER) =>
    numberFrom(z.number().int().min(min).max(max), rangeOf('a whole number', min, max)),
  integerOr: <W extends string>(word: W, min: number, max: number) => {
    const number = z.number().int().min(min).max(max);
    return z
      .string()
      .trim()
      .refine((text) => text === word || (text !== '' && number.safeParse(Number(text)).success), {
        error: `${rangeOf('a whole number', min, max)}, or ${word}`,
      })
      .transform((text) => (text === word ? word : Number(text)));
  },
  seconds: (min: number, max = 86_400 * 30) =>
    numberFrom(z.number().min(min).max(max), rangeOf('a number of seconds', min, max)),
  number: (min: number) => numberFrom(z.number().min(min), `expected a number, at least ${min}`),
  share: (min = 0) => numberFrom(z.number().min(min).max(1), `expected a number from ${min} to 1`),
  port: (max = 65_535) =>
    numberFrom(z.number().int().min(1).max(max), `expected a port between 1 and ${max}`),
  flag: () =>
    z
      .string()
      .trim()
      .toLowerCase()
      .refine((text) => ['true', 'false', '1', '0'].includes(text), { error: 'expected true, false, 1 or 0' })
      .transform((text) => text === 'true' || text === '1'),
};

/**
 * Reads and validates variables. Empty values count as unset.
 * @param secrets names whose values must not be shown in the error
 * @throws UserError that lists every bad variable: its name, what was given, what is expected
 */
export function readEnvironment<S extends z.ZodObject>(
  schema: S,
  env: NodeJS.ProcessEnv,
  secrets: readonly string[] = [],
): z.infer<S> {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value?.trim()));
  const parsed = schema.safeParse(given, { error: expectationWords });
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => {
    const name = String(issue.path[0] ?? '');
    const value = given[name];
    if (value === undefined) return `  ${name} is not set: ${describe(schema, name)}`;
    const shown = secrets.includes(name) ? MASK : JSON.stringify(value.replace(CREDENTIALS, `//${MASK}@`));
    return `  ${name}=${shown}: ${issue.message}`;
  });
  const count = lines.length === 1 ? 'One variable needs' : `${lines.length} variables need`;
  throw new UserError(`${count} attention:\n${[...new Set(lines)].join('\n')}`);
}

/** What the schema says a variable is for (`.describe()`), for the message that it is missing. */
function describe(schema: z.ZodObject, name: string): string {
  return (schema.shape[name] as z.ZodType | undefined)?.description ?? 'it is required';
}

function numberFrom(schema: z.ZodNumber, expectation: string) {
  return z
    .string()
    .refine((text) => text.trim() !== '' && schema.safeParse(Number(text)).success, { error: expectation })
    .transform(Number);
}

function rangeOf(what: string, min: number, max: number): string {
  return max >= Number.MAX_SAFE_INTEGER
    ? `expected ${what}, at least ${min}`
    : `expected ${what} from ${min} to ${max}`;
}

/** User name and password of an address. */
const CREDENTIALS = /\/\/[^/?#\s]*@/;

function protocolOf(text: string): string {
  return URL.canParse(text) ? new URL(text).protocol : '';
}

function isUrl(text: string, protocols: string[]): boolean {
  return protocols.includes(protocolOf(text));
}
