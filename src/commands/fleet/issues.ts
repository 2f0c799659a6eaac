import * as z from 'zod';
import { closestName } from '../../process/spelling.ts';
import { FleetSpec } from '../../scheduler/spec.ts';

/** What zod found in a file, in words for the one who wrote it. */

export interface Remark {
  path: PropertyKey[];
  /** What it is about; of a key that is not there: what lies around it. */
  of: 'key' | 'value';
  text: string;
}

export function remarksOf(issues: readonly z.core.$ZodIssue[], document: unknown): Remark[] {
  return issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      const known = knownKeys(issue.path, document);
      return issue.keys.map((key) => ({
        path: [...issue.path, key],
        of: 'key' as const,
        text: unknownKey(key, known),
      }));
    }
    const given = valueAt(document, issue.path);
    const isOfKey = issue.code === 'invalid_key' || (issue.code === 'custom' && issue.params?.of === 'key');
    const of = isOfKey || given === undefined ? 'key' : 'value';
    return [{ path: [...issue.path], of, text: textOf(issue, given) }];
  });
}

/** What a document holds there; undefined: nothing. */
function valueAt(document: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((value, part) => fieldOf(value, part), document);
}

export function fieldOf(value: unknown, key: PropertyKey): unknown {
  const isHeld = typeof value === 'object' && value !== null && Object.hasOwn(value, key);
  return isHeld ? (value as Record<PropertyKey, unknown>)[key] : undefined;
}

/** As it would be written. */
export function shown(value: unknown): string {
  if (value === null) return 'nothing';
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

export function didYouMean(name: string, known: Iterable<string>): string {
  const closest = closestName(name, known);
  return closest === null ? '' : `; did you mean ${closest}?`;
}

function unknownKey(key: string, known: readonly string[]): string {
  return `is not known here${didYouMean(key, known) || `; possible are ${known.join(', ')}`}`;
}

function textOf(issue: z.core.$ZodIssue, given: unknown): string {
  if (given === undefined && issue.code !== 'custom' && issue.code !== 'invalid_key') return 'is missing';
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${TYPES[issue.expected] ?? issue.expected}, not ${shown(given)}`;
    case 'too_small':
      return tooSmall(issue, given);
    case 'too_big':
      return `expected at most ${issue.maximum}${unitOf(issue.origin)}, not ${sizeOf(given)}`;
    case 'invalid_value':
      return oneOf(issue.values.map(String), given);
    case 'invalid_union':
      return unionText(issue, given);
    case 'invalid_key':
      return issue.issues[0]?.message ?? issue.message;
    case 'invalid_format':
      return `${issue.message.startsWith('expected') ? issue.message : (FORMATS[issue.format] ?? issue.message)}, not ${shown(given)}`;
    default:
      return issue.message;
  }
}

const TYPES: Record<string, string> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'names with values',
  record: 'names with values',
};

const FORMATS: Record<string, string> = { url: 'expected an address such as https://example.com' };

function tooSmall(issue: z.core.$ZodIssueTooSmall, given: unknown): string {
  if (issue.origin !== 'number' && issue.minimum === 1) return 'must not be empty';
  return `expected at least ${issue.minimum}${unitOf(issue.origin)}, not ${sizeOf(given)}`;
}

function unitOf(origin: string): string {
  return origin === 'string' ? ' characters' : origin === 'array' ? ' entries' : '';
}

function sizeOf(given: unknown): string {
  return typeof given === 'string' || Array.isArray(given) ? String(given.length) : shown(given);
}

function oneOf(values: readonly string[], given: unknown): string {
  const hint = typeof given === 'string' ? didYouMean(given, values) : '';
  return `expected ${values.join(', ')}, not ${shown(given)}${hint}`;
}

function unionText(issue: z.core.$ZodIssueInvalidUnion, given: unknown): string {
  const { options } = issue as { options?: readonly unknown[] };
  if (options) return oneOf(options.map(String), given);
  const alternatives = issue.errors.flatMap(([first]) => {
    if (first === undefined) return [];
    return first.code === 'invalid_type' ? [TYPES[first.expected] ?? first.expected] : [];
  });
  return `expected ${[...new Set(alternatives)].join(' or ')}, not ${shown(given)}`;
}

interface JsonSchema {
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | false;
  items?: JsonSchema;
  oneOf?: JsonSchema[];
  const?: unknown;
}

/** The names that are possible at a place of the document. */
function knownKeys(path: readonly PropertyKey[], document: unknown): string[] {
  let schema = z.toJSONSchema(FleetSpec, { io: 'input' }) as JsonSchema | undefined;
  let value = document;
  for (const part of path) {
    const named = alternativeFor(schema, value);
    schema = named?.properties?.[String(part)] ?? named?.items ?? (named?.additionalProperties || undefined);
    value = fieldOf(value, part);
  }
  const keys = Object.keys(alternativeFor(schema, value)?.properties ?? {});
  return keys.filter((key) => key !== '$schema');
}

/** The driver says which kind of provider it is. */
function alternativeFor(schema: JsonSchema | undefined, value: unknown): JsonSchema | undefined {
  if (!schema?.oneOf) return schema;
  return schema.oneOf.find(({ properties }) => properties?.driver?.const === fieldOf(value, 'driver'));
}
