import * as z from 'zod';
import { didYouMean, shown } from '../../protocol/schema-words.ts';
import { FleetSpec } from '../../scheduler/spec.ts';

/** A remark on one place of a fleet's file, made of a fault that its schema found. */

export interface Remark {
  path: PropertyKey[];
  /**
   * The part of the place that the remark is about, its key or its value; of a missing key, the thing around it is
   * shown.
   */
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

/** Returns what a document holds at a path; undefined where it holds nothing. */
function valueAt(document: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((value, part) => fieldOf(value, part), document);
}

export function fieldOf(value: unknown, key: PropertyKey): unknown {
  const isHeld = typeof value === 'object' && value !== null && Object.hasOwn(value, key);
  return isHeld ? (value as Record<PropertyKey, unknown>)[key] : undefined;
}

function unknownKey(key: string, known: readonly string[]): string {
  return `is not known here${didYouMean(key, known) || `; possible are ${known.join(', ')}`}`;
}

/** Returns what is wrong with a value. The schema's own messages say what was expected, but not what was given. */
function textOf({ code, message }: z.core.$ZodIssue, given: unknown): string {
  if (given === undefined && code !== 'custom' && code !== 'invalid_key') return 'is missing';
  const isWhole = code !== 'invalid_format' || message.includes(', not ');
  return isWhole ? message : `${message}, not ${shown(given)}`;
}

interface JsonSchema {
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | false;
  items?: JsonSchema;
  oneOf?: JsonSchema[];
  const?: unknown;
}

/** Returns the names that are possible at a place of the document. */
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

/** Returns the alternative of a schema that fits: the driver decides which kind a provider is. */
function alternativeFor(schema: JsonSchema | undefined, value: unknown): JsonSchema | undefined {
  if (!schema?.oneOf) return schema;
  return schema.oneOf.find(({ properties }) => properties?.driver?.const === fieldOf(value, 'driver'));
}
