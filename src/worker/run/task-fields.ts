import * as z from 'zod';
import { type JsonEdits, jsonFields, parseValue, withMembers, writeJson } from '../../protocol/index.ts';
import type { Attempt } from './attempt.ts';

const Named = z.looseObject({ model: z.string().nullish() });

/** Returns the model name to ask the engine for in a task's request: every task may name a model, and none has to. */
export function modelOf(attempt: Attempt): string {
  const parsed = parseValue(Named, attempt.payload);
  const asked = parsed.ok ? parsed.value.model : null;
  return attempt.modelFor(asked || 'default');
}

/**
 * Returns what a schema changed in a payload: the members that it set, replaced or left out. Objects and lists do not
 * count, since a schema only looks through them.
 */
export function changed(given: object, read: object): JsonEdits {
  const before = new Map<string, unknown>(Object.entries(given));
  const edits: [string, string | undefined][] = [];
  for (const [name, value] of Object.entries(read)) {
    const was = before.get(name) ?? null;
    if (value === was || (typeof value === 'object' && value !== null && was !== null)) continue;
    edits.push([name, JSON.stringify(value)]);
  }
  return Object.fromEntries(edits);
}

/** Writes a request made of fields as JSON; fields that are the payload's own are written as they are there. */
export function asWritten(fields: Readonly<Record<string, unknown>>, payload: object): string {
  const own = new Map<string, unknown>(Object.entries(payload));
  const names = Object.keys(fields).filter((name) => own.has(name) && own.get(name) === fields[name]);
  const json = Buffer.from(writeJson(payload));
  return withMembers(writeJson(fields), jsonFields(json, names, Number.POSITIVE_INFINITY));
}
