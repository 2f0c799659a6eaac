/** Returns whether a value is what JSON calls an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the fields of a value from outside, or of one that was thrown; none where it is no object. */
export function fieldsOf(value: unknown): { readonly [name: string]: unknown } {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** Parses a text from outside that may be JSON; returns any other text itself. */
export function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Returns the path of a member named `__proto__`, which schemas ignore without a word, or null. */
export function protoIn(value: unknown, path: readonly PropertyKey[] = []): PropertyKey[] | null {
  if (typeof value !== 'object' || value === null) return null;
  if (Object.hasOwn(value, '__proto__')) return [...path, '__proto__'];
  for (const [name, member] of Object.entries(value)) {
    const found = protoIn(member, [...path, name]);
    if (found !== null) return found;
  }
  return null;
}
