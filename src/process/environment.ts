import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import { homedir } from 'node:os';
import { dirname, resolve } from 'node:path';
import * as z from 'zod';
import { expectationWords } from '../protocol/schema-words.ts';
import { isPlain } from '../protocol/text.ts';
import { UserError } from './exit-codes.ts';
import { MASK, mayHoldSecret } from './secrets.ts';

/** The building blocks for variables, so that each kind of value is read the same way everywhere. */
export const variable = {
  text: () => z.string().trim().min(1),
  /** A text that people see and that is part of addresses: an id. */
  name: (most: number) =>
    variable
      .text()
      .max(most)
      .refine(isPlain, { error: 'expected no line breaks and no other control characters' }),
  /** A text that `check` accepts. @param check throws what is wrong with a text */
  checkedText: (check: (text: string) => unknown) =>
    variable.text().superRefine((text, context) => {
      try {
        check(text);
      } catch (error) {
        context.addIssue({ code: 'custom', message: (error as Error).message });
      }
    }),
  /** A text that can be the value of an HTTP header, such as a token. */
  header: () =>
    z
      .string()
      .trim()
      .min(1)
      .superRefine((text, context) => {
        const problem = headerProblem(text);
        if (problem !== null) context.addIssue({ code: 'custom', message: problem });
      }),
  /** Headers as OpenTelemetry's exporters read them: `name=value,…`, values percent-encoded. */
  headers: () =>
    variable.checkedText((text) => {
      const wrong = text.split(',').findIndex((pair) => pair.trim() !== '' && !isHeader(pair));
      if (wrong < 0) return;
      throw new Error(
        `its part ${wrong + 1} is no header: expected name=value, comma-separated, the values of visible ASCII characters or percent-encoded`,
      );
    }),
  url: (...protocols: string[]) =>
    // A URL ignores blanks around it, but code that appends a path to the text does not.
    z
      .string()
      .trim()
      .refine((text) => isUrl(text, protocols), {
        error: `expected a URL starting with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}, without blanks and line breaks`,
      })
      // `fetch` takes no credentials, and its error shows the whole address, password included.
      .refine((text) => !/^https?:$/.test(protocolOf(text)) || !CREDENTIALS.test(text), {
        error: 'expected no user name and password in it: they would not be sent',
      }),
  /** A URL to which paths are appended. */
  baseUrl: (...protocols: string[]) =>
    variable.url(...protocols).refine((text) => !/[?#]/.test(text), {
      error: 'expected no "?" and no "#" in it: paths are put behind it',
    }),
  /** The address of an HTTP proxy, which may hold a user name and a password; without a scheme it is `http://`. */
  proxy: () =>
    z
      .string()
      .trim()
      .transform((text) => (text.includes('://') ? text : `http://${text}`))
      .refine((text) => isUrl(text, ['http:', 'https:']), {
        error:
          'expected the address of an HTTP proxy, http://host:port or https://host:port, with name:password@ before the host where it asks for them',
      })
      .refine((text) => !URL.canParse(text) || isDecodable(new URL(text)), {
        error: 'expected "%" in its user name and password to be written as %25',
      }),
  /** A name or an address to listen on, without the brackets in which URLs write IPv6. */
  host: () =>
    z
      .string()
      .trim()
      .transform((text) => text.replace(/^\[(.*)\]$/, '$1'))
      .refine((text) => isIP(text) !== 0 || /^(?:\*|[\w.-]+)$/.test(text), {
        error: 'expected a name or an address, without http:// and without a port',
      }),
  /** A folder or a file, which need not exist. */
  path: () =>
    z
      .string()
      .trim()
      .min(1)
      .superRefine((text, context) => {
        const problem = pathProblem(text);
        if (problem !== null) context.addIssue({ code: 'custom', message: problem });
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
  number: (min: number, max = Number.MAX_SAFE_INTEGER) =>
    numberFrom(z.number().min(min).max(max), rangeOf('a number', min, max)),
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
 * @throws UserError that lists every bad variable: its name, what was given, what is expected
 */
export function readEnvironment<S extends z.ZodObject>(schema: S, env: NodeJS.ProcessEnv): z.infer<S> {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value?.trim()));
  const parsed = schema.safeParse(given, { error: expectationWords });
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => {
    const name = String(issue.path[0] ?? '');
    const value = given[name];
    if (value === undefined) return `  ${name} is not set: ${describe(schema, name)}`;
    const shown = mayHoldSecret(name) ? MASK : shownValue(name, value);
    return `  ${name}=${shown}: ${withoutCredentials(issue.message)}`;
  });
  const count = lines.length === 1 ? 'One variable needs' : `${lines.length} variables need`;
  throw new UserError(`${count} attention:\n${[...new Set(lines)].join('\n')}`);
}

/** Returns the schema's description of a variable (`.describe()`), for the message that it is missing. */
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

/** Matches the user name and password of an address. */
const CREDENTIALS = /\/\/[^/?#\s]*@/;

function protocolOf(text: string): string {
  return URL.canParse(text) ? new URL(text).protocol : '';
}

function isUrl(text: string, protocols: string[]): boolean {
  // The parser of URLs ignores line breaks and missing slashes.
  return protocols.includes(protocolOf(text)) && /^[a-z]+:\/\/\S+$/i.test(text);
}

function isDecodable({ username, password }: URL): boolean {
  try {
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

/** Returns whether a pair is `name=value` that HTTP accepts as a header, the value percent-encoded (RFC 9110 §5.5). */
function isHeader(pair: string): boolean {
  const [, name = '', value = ''] = /^([^=]*)=(.*)$/s.exec(pair.trim()) ?? [];
  try {
    return /^[\w!#$%&'*+.^`|~-]+$/.test(name.trim()) && /^[\t\x20-\x7e]*$/.test(decodeURIComponent(value));
  } catch {
    return false;
  }
}

/** Names the character that keeps a text out of a header, without repeating the text, or returns null. */
export function headerProblem(text: string): string | null {
  const characters = [...text];
  const at = characters.findIndex((character) => !/^[\x21-\x7e]$/.test(character));
  if (at < 0) return null;
  const named = NAMED[characters[at] as string];
  const code = (characters[at]?.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
  return `its character ${at + 1} is ${named ?? `U+${code}`}: expected visible ASCII characters without blanks, as it goes into an HTTP header`;
}

const NAMED: Record<string, string> = {
  '\n': 'a line break',
  '\r': 'a line break',
  '\t': 'a tab',
  ' ': 'a blank',
  '\u201c': 'a curly quotation mark (U+201C)',
  '\u201d': 'a curly quotation mark (U+201D)',
};

/** The most bytes of one name in file systems of Linux and macOS. */
const LONGEST_NAME = 255;

/** Returns why no file or folder can have this path, or null. */
function pathProblem(text: string): string | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\x00-\x1f\x7f]/.test(text)) return 'expected a path without line breaks and control characters';
  if (text.split('/').some((part) => Buffer.byteLength(part) > LONGEST_NAME)) {
    return `expected a path whose parts have ${LONGEST_NAME} bytes at most`;
  }
  for (let folder = dirname(resolve(text)); ; folder = dirname(folder)) {
    const found = statSync(folder, { throwIfNoEntry: false });
    if (found) return found.isDirectory() ? null : `${folder} is no folder`;
    if (folder === dirname(folder)) return null;
  }
}

/** Matches names of variables that hold addresses, which may hold secrets anywhere but in the host. */
const ADDRESS = /(?:url|endpoint|proxy|hosts?)$|webhook/i;
const MOST_SHOWN = 200;

/** Returns a wrong value in the form in which a message may show it. */
function shownValue(name: string, value: string): string {
  const text = ADDRESS.test(name) || /@|:\/\//.test(value) ? shownAddress(value) : value;
  return JSON.stringify(text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text);
}

/** Returns scheme, host and port of a text that should be an address, however misspelt. */
function shownAddress(text: string): string {
  const at = text.lastIndexOf('@');
  const scheme = /^[a-z][\w+.-]*:\/\//i.exec(text)?.[0] ?? '';
  const rest = text.slice(at < 0 ? scheme.length : at + 1);
  const [, host = '', more = ''] = /^([^/?#\s]*)(.*)$/s.exec(rest) ?? [];
  // A bare word may be anything, even a secret.
  const isHost = /^localhost$|[.:\]]/.test(host) || scheme !== '';
  return `${scheme}${at < 0 ? '' : `${MASK}@`}${isHost ? host : MASK}${/^\/?$/.test(more) ? more : '/…'}`;
}

/** Hides every user name and password in the addresses of a text. */
export function withoutCredentials(text: string): string {
  return text.replace(/\/\/[^/?#\s]*@/g, `//${MASK}@`);
}

/**
 * Returns the home folder of this user.
 * @param variable the name of the variable that can set the folder for which callers look there
 * @throws UserError when this user has none
 */
export function homeFolder(variable: string): string {
  try {
    return homedir();
  } catch {
    throw new UserError(
      `This user has no home folder: HOME is not set, and /etc/passwd has no entry for it. Set ${variable} to a folder, or HOME.`,
    );
  }
}
