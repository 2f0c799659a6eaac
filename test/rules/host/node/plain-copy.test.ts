import fc from 'fast-check';
import { expect, it } from 'vitest';
import { plainCopy } from '../../../../src/host/node/objects/plain-copy.ts';

it('copies plain data in depth, so that neither side sees what the other changes', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (given) => {
      // A member named `__proto__` is one as any other.
      const value = { given, ...JSON.parse('{"__proto__":{"a":[1]}}') };
      const copy = plainCopy(value, 'lent');
      expect(copy).toStrictEqual(value);
      expect(Object.getOwnPropertyDescriptor(copy, '__proto__')?.value).toEqual({ a: [1] });
      expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
      copy.added = 1;
      Object.getOwnPropertyDescriptor(copy, '__proto__')!.value.a.push(2);
      expect(Object.getOwnPropertyDescriptor(value, '__proto__')?.value).toEqual({ a: [1] });
      if (typeof given === 'object' && given !== null) expect(copy.given).not.toBe(given);
    }),
  );
});

it('hands bytes and instances of classes on, and copies bytes where they are not lent', () => {
  const [bytes, date] = [new Uint8Array([1]), new Date()];
  expect(plainCopy({ bytes, date }, 'lent')).toStrictEqual({ bytes, date });
  expect(plainCopy({ bytes }, 'lent').bytes).toBe(bytes);
  const copied = plainCopy({ bytes, date }, 'copied');
  expect(copied.bytes).toEqual(bytes);
  expect(copied.bytes).not.toBe(bytes);
  expect(copied.date).toBe(date);
});
