import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import {
  elementsOf,
  firstBadByte,
  jsonFields,
  membersOf,
  utf8Problem,
  utf8Text,
  withMemberAt,
  withMembers,
} from '../../../src/protocol/index.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = (part: Uint8Array | undefined) => part && new TextDecoder().decode(part);

/** JSON of a number as programs write them, of which a parser gives back another text. */
const number = fc.oneof(
  fc.constantFrom('9007199254740993', '-9223372036854775808', '1e400', '-0', '1.0', '0.1e-7', '1E+2'),
  fc.bigInt().map(String),
);
const blank = fc.constantFrom('', '', '', ' ', '\n', '\t', '\r\n ');
const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('}', '"', '\\', 'Grüße', '🙂', '],{'));

/** A text as JSON, some of its letters as escapes. */
const written = (given: fc.Arbitrary<string>) =>
  fc
    .tuple(given, fc.nat(4))
    .map(([value, every]) =>
      JSON.stringify(value).replace(/(?<!\\|\\u.{0,3})[a-z]/g, (letter, at: number) =>
        at % 5 < every ? letter : `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
      ),
    );
const name = fc.constantFrom('10', '9', 'b', 'a', 'model', '', '__proto__', 'toString', '"', 'größe');

const { value } = fc.letrec<{ value: string; object: string }>((tie) => ({
  object: fc
    .array(fc.tuple(blank, written(name), blank, tie('value'), blank), { maxLength: 5 })
    .map((members) => `{${members.map(([a, key, b, json, c]) => `${a}${key}:${b}${json}${c}`).join(',')} }`),
  value: fc.oneof(
    { maxDepth: 3 },
    number,
    written(text),
    fc.constantFrom('true', 'false', 'null'),
    fc.array(tie('value'), { maxLength: 3 }).map((parts) => `[ ${parts.join(' , ')}]`),
    tie('object'),
  ),
}));

/** An object as members, so that a test knows what stands where. */
const members = fc.array(fc.tuple(blank, written(name), blank, value, blank), { maxLength: 6 });
const join = (all: readonly (readonly string[])[]) =>
  `{${all.map(([a, key, b, json, c]) => `${a}${key}${b}:${b}${json}${c}`).join(',')}}`;

describe('members of JSON', () => {
  it('stand where a parser finds them, the last of one name', () => {
    fc.assert(
      fc.property(members, blank, (all, around) => {
        const json = bytes(`${around}${join(all)}${around}`);
        const found = membersOf(json).map(({ name, valueStart, end }) => [
          name,
          textOf(json.subarray(valueStart, end)),
        ]);
        expect(found).toEqual(all.map(([, key, , json]) => [JSON.parse(key), json]));
        const last = new Map(found as [string, string][]);
        expect(new Map(Object.entries(jsonFields(json, ['10', 'b', 'model', ''])))).toEqual(
          new Map(
            [...last]
              .filter(([key]) => ['10', 'b', 'model', ''].includes(key))
              .map(([k, v]) => [k, bytes(v)]),
          ),
        );
      }),
      { numRuns: 500 },
    );
  });

  it('of an array stand side by side', () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 5 }), blank, (all, around) => {
        const json = `${around}[${around}${all.join(`${around},${around}`)}${around}]${around}`;
        expect(elementsOf(bytes(json)).map(textOf)).toEqual(all);
      }),
    );
    for (const wrong of ['', '{}', '[1', '[1,]', '[,1]', '[1]]']) {
      expect(() => elementsOf(bytes(wrong)), wrong).toThrow(/not valid JSON/);
    }
  });
});

describe('edits of JSON', () => {
  const edits = fc.dictionary(
    name.filter((key) => key !== '__proto__'),
    fc.option(value, { nil: undefined }),
    { maxKeys: 3 },
  );

  it('change what they name, and leave every other member byte for byte in its place', () => {
    fc.assert(
      fc.property(members, edits, fc.boolean(), (all, wanted, isText) => {
        const given = join(all);
        const json = isText ? withMembers(given, wanted) : textOf(withMembers(bytes(given), wanted))!;
        JSON.parse(json);
        const kept = membersOf(bytes(json)).filter(({ name }) => !Object.hasOwn(wanted, name));
        expect(kept.map(({ start, end }) => textOf(bytes(json).subarray(start, end)))).toEqual(
          all
            .filter(([, key]) => !Object.hasOwn(wanted, JSON.parse(key)))
            .map(([, key, b, json]) => `${key}${b}:${b}${json}`),
        );
        for (const [key, to] of Object.entries(wanted)) {
          const now = membersOf(bytes(json)).filter(({ name }) => name === key);
          expect(now.map(({ valueStart, end }) => textOf(bytes(json).subarray(valueStart, end)))).toEqual(
            to === undefined ? [] : [to],
          );
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('of nothing leave the bytes as they are', () => {
    fc.assert(
      fc.property(members, blank, (all, around) => {
        const json = `${around}${join(all)}${around}`;
        expect(withMembers(json, {})).toBe(json);
      }),
    );
  });

  test.each([
    ['{}', { a: '1' }, '{"a":1}'],
    [' { } ', { a: '1', b: undefined }, ' {"a":1 } '],
    ['{"a":1}', { a: undefined }, '{}'],
    ['{ "a" : 1 , "b" : 2 }', { a: undefined }, '{ "b" : 2 }'],
    ['{ "a" : 1 , "b" : 2 }', { b: undefined, c: '1.0' }, '{ "a" : 1,"c":1.0 }'],
    ['{"a":1,"b":2,"a":3}', { a: '4' }, '{"b":2,"a":4}'],
    ['{"\\u0061":1}', { a: '-0' }, '{"\\u0061":-0}'],
    ['{"10":1,"9":2}', { b: '{"10":1,"9":2}' }, '{"10":1,"9":2,"b":{"10":1,"9":2}}'],
  ])('%s with %j is %s', (given, wanted, expected) => {
    expect(withMembers(given, wanted)).toBe(expected);
  });

  test.each([
    ['{"a":{"seed":9007199254740993}}', '{"a":{"seed":9007199254740993,"b":true}}'],
    ['{"a":null}', '{"a":{"b":true}}'],
    ['{"x":1.0}', '{"x":1.0,"a":{"b":true}}'],
    ['{"a":{"b":1},"a":{"b":2}}', '{"a":{"b":true}}'],
  ])('deeper in %s are %s', (given, expected) => {
    expect(withMemberAt(given, ['a', 'b'], 'true')).toBe(expected);
  });

  it('need an object', () => {
    for (const wrong of ['', '[]', 'null', '{', '{"a":1} x', '{"a" 1}']) {
      expect(() => withMembers(wrong, { a: '1' }), wrong).toThrow();
    }
  });
});

describe('UTF-8', () => {
  it('is what a strict decoder takes, and the first byte that is none is named by its offset', () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 4 }),
      fc.string({ unit: 'binary', maxLength: 4 }).map(bytes),
      fc
        .constantFrom([0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe0, 0x80, 0x80])
        .map((given) => new Uint8Array(given)),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
        const given = Buffer.concat(pieces);
        const at = firstBadByte(given);
        const strict = (part: Uint8Array) => new TextDecoder('utf-8', { fatal: true }).decode(part);
        if (at === null) strict(given);
        else {
          strict(given.subarray(0, at));
          expect(() => strict(given)).toThrow();
          // No character begins there, however many bytes follow.
          for (let end = at + 1; end <= Math.min(at + 4, given.length); end++) {
            expect(() => strict(given.subarray(at, end))).toThrow();
          }
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('is said to be needed, and what came in its place', () => {
    expect(() => utf8Text(Buffer.from('{"a":"Grüße"}', 'latin1'))).toThrow(
      /no UTF-8: the byte 0xfc at offset 8/,
    );
    const json = '{"a":"Grüße"}';
    const utf16 = Buffer.from(json, 'utf16le');
    const utf32 = Buffer.concat(
      [...json].map((character) => Buffer.from([character.charCodeAt(0), 0, 0, 0])),
    );
    const marked = (mark: number[], given: Buffer) => Buffer.concat([Buffer.from(mark), given]);
    for (const given of [utf16, Buffer.from(utf16).swap16()]) {
      expect(utf8Problem(given)).toMatch(/encoded in UTF-16/);
    }
    expect(utf8Problem(marked([0xff, 0xfe], utf16))).toMatch(/encoded in UTF-16/);
    expect(utf8Problem(marked([0xfe, 0xff], Buffer.from(utf16).swap16()))).toMatch(/encoded in UTF-16/);
    for (const given of [utf32, Buffer.from(utf32).swap32()]) {
      expect(utf8Problem(given)).toMatch(/encoded in UTF-32/);
    }
    expect(utf8Problem(marked([0xff, 0xfe, 0, 0], utf32))).toMatch(/encoded in UTF-32/);
    expect(utf8Problem(marked([0, 0, 0xfe, 0xff], Buffer.from(utf32).swap32()))).toMatch(/encoded in UTF-32/);
  });

  it('loses its byte order mark, and nothing else', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (given) => {
        fc.pre(!given.startsWith('\ufeff') && !given.slice(0, 4).includes('\0'));
        expect(utf8Text(bytes(given))).toBe(given);
        expect(utf8Text(bytes(`\ufeff${given}`))).toBe(given);
      }),
    );
  });
});
