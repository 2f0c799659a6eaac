import type * as z from 'zod';
import { anyOf, closestName } from './text.ts';

/**
 * Says what a schema finds wrong with a value, for its author: `expected a whole number, not 0.5`. Callers hand it to
 * `safeParse(value, { error: schemaWords })` wherever somebody may read the message. Messages that a schema itself
 * defines stay.
 */
export const schemaWords: z.core.$ZodErrorMap = (issue) => {
  const { expected, given } = faultIn(issue);
  return given === undefined ? expected : `${expected}, not ${given}`;
};

/** Says the same as `schemaWords` without the value, which may be a secret. */
export const expectationWords: z.core.$ZodErrorMap = (issue) => faultIn(issue).expected;

/**
 * Words the fault of an issue.
 * @returns `given`, the value as messages show it, or undefined where they say nothing of it
 */
function faultIn(issue: z.core.$ZodRawIssue): { expected: string; given?: string } {
  const { input } = issue;
  const given = shown(input);
  switch (issue.code) {
    case 'invalid_type':
      return input === undefined ? MISSING : { expected: `expected ${typeWords(issue.expected)}`, given };
    case 'too_small':
      if (issue.origin !== 'number' && Number(issue.minimum) === 1) return { expected: 'must not be empty' };
      return sizeFault(issue.inclusive === false ? 'more than' : 'at least', issue.minimum, issue);
    case 'too_big':
      return sizeFault(issue.inclusive === false ? 'less than' : 'at most', issue.maximum, issue);
    case 'not_multiple_of':
      return { expected: `expected a multiple of ${issue.divisor}`, given };
    case 'invalid_value':
      return input === undefined ? MISSING : oneOf(issue.values.map(String), input);
    case 'unrecognized_keys':
      return { expected: unknownKeys(issue) };
    case 'invalid_union':
      return unionFault(issue);
    case 'invalid_key':
      return { expected: issue.issues[0]?.message ?? 'is no name that is possible here' };
    case 'invalid_format':
      if (issue.format === 'starts_with')
        return { expected: `must begin with ${shown(issue.prefix)}`, given };
      return { expected: FORMATS[issue.format] ?? 'is not in the expected form', given };
    default:
      return { expected: 'is not as expected' };
  }
}

const MISSING = { expected: 'is missing' };

/** Returns a value as its author would write it, shortened. */
export function shown(value: unknown): string {
  if (value === null) return 'nothing';
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** Writes `; did you mean NAME?`, or nothing where no name is near. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const closest = closestName(name, known);
  return closest === null ? '' : `; did you mean ${closest}?`;
}

const TYPES: Record<string, string> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'names with values',
  record: 'names with values',
  null: 'null',
};

function typeWords(expected: string): string {
  return TYPES[expected] ?? expected;
}

const FORMATS: Record<string, string> = {
  url: 'expected an address such as https://example.com',
  datetime: 'expected a time such as 2026-01-31T12:00:00Z',
  base64: 'expected base64',
};

function sizeFault(how: string, bound: unknown, { origin, input }: z.core.$ZodRawIssue & { origin: string }) {
  const isLength = typeof input === 'string' || Array.isArray(input);
  const unit = { string: 'character', array: 'item' }[origin];
  const units = unit === undefined ? '' : ` ${unit}${Number(bound) === 1 ? '' : 's'}`;
  return {
    expected: `expected ${how} ${bound}${units}`,
    given: isLength ? String(input.length) : shown(input),
  };
}

function oneOf(values: readonly string[], input: unknown) {
  const hint = typeof input === 'string' ? didYouMean(input, values) : '';
  return { expected: `expected ${anyOf(values)}`, given: `${shown(input)}${hint}` };
}

/** Names the keys that the schema of an object does not have. */
function unknownKeys({ keys, inst }: z.core.$ZodRawIssue<z.core.$ZodIssueUnrecognizedKeys>): string {
  const { shape } = (inst as z.ZodObject | undefined)?._zod.def ?? {};
  const known = Object.keys(shape ?? {});
  return keys
    .map((key) => `${shown(key)} is not known here${didYouMean(key, known) || possible(known)}`)
    .join('; ');
}

function possible(known: readonly string[]): string {
  return known.length > 0 ? `; possible are ${known.join(', ')}` : '';
}

function unionFault(issue: z.core.$ZodRawIssue<z.core.$ZodIssueInvalidUnion>) {
  const { input } = issue;
  const { options, discriminator } = issue as { options?: readonly unknown[]; discriminator?: string };
  if (options !== undefined && discriminator !== undefined) {
    const named = (input as Record<string, unknown> | null)?.[discriminator];
    return named === undefined ? MISSING : oneOf(options.map(String), named);
  }
  if (input === undefined) return MISSING;
  const alternatives = (issue.errors ?? []).flatMap(([first]) =>
    first?.code === 'invalid_type' && first.path.length === 0 ? [typeWords(first.expected)] : [],
  );
  const expected = `expected ${[...new Set(alternatives)].join(' or ')}`;
  return { expected: alternatives.length > 0 ? expected : 'is not possible here', given: shown(input) };
}

/** Puts a value in place of a field that is left out, or null as some senders write it. */
export function otherwise<T>(schema: z.ZodType<T>, value: T) {
  return schema.nullish().transform((given) => given ?? value);
}

/** Treats a field that is null as one that is left out. */
export function maybe<T>(schema: z.ZodType<T>) {
  return schema
    .nullish()
    .transform((given) => given ?? undefined)
    .optional();
}
