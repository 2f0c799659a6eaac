import { isObject } from './fields.ts';

/** What a message looks like, checked without zod, which is several times slower. */

export type Check = (value: unknown) => boolean;

/** Fields in the order of the schema. A field that is left out passes if it is in `optional`. */
export interface Shape {
  fields: readonly (readonly [name: string, check: Check])[];
  optional: ReadonlySet<string>;
}

export function shape(fields: Record<string, Check>, optional: string[] = []): Shape {
  return { fields: Object.entries(fields), optional: new Set(optional) };
}

/** The known fields of what has this shape; null: it has not. */
export function taken<T>({ fields, optional }: Shape, data: unknown): T | null {
  const given = data as Record<string, unknown>;
  const known: Record<string, unknown> = {};
  for (const [name, check] of fields) {
    const value = given[name];
    if (value === undefined && optional.has(name)) continue;
    if (!check(value)) return null;
    known[name] = value;
  }
  return known as T;
}

/** Has this shape and nothing else. */
export function isExactly(shape: Shape, value: unknown): boolean {
  if (!isObject(value)) return false;
  const known = taken<object>(shape, value);
  return known !== null && Object.keys(known).length === Object.keys(value as object).length;
}
