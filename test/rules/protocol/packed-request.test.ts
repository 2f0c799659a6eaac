import { expect, it } from 'vitest';
import { pack, payloadText, unpack } from '../../../src/protocol/index.ts';

const bytes = (...values: number[]) => new Uint8Array(values);

it('a request keeps its head and every byte of its body', () => {
  const body = Uint8Array.from({ length: 256 }, (_, at) => at);
  const packed = pack('{"path":"/größer"}', body);
  // It may be part of a larger buffer.
  const view = new Uint8Array([7, ...packed]).subarray(1);
  expect(unpack(view)).toEqual({ head: '{"path":"/größer"}', body });
});

it('what is no packed request, or is cut short, is none', () => {
  for (const none of [bytes(), bytes(0x7b, 0x7d), bytes(0, 0, 0), bytes(0, 0, 0, 0, 9, 0x7b)]) {
    expect(unpack(none)).toBeNull();
  }
});

it('as text it is JSON with the body in it, where that is text', () => {
  const encode = (text: string) => new TextEncoder().encode(text);
  expect(JSON.parse(payloadText(pack('{"path":"/a"}', encode('"ü\n')))!)).toEqual({
    path: '/a',
    body: '"ü\n',
  });
  expect(payloadText(pack('{"path":"/a"}', bytes()))).toBe('{"path":"/a"}');
  expect(payloadText(encode('{"a":1}'))).toBe('{"a":1}');
  expect(payloadText(pack('{}', bytes(0xff)))).toBeNull();
});

it('as text it is what JSON.stringify makes of it, whatever the body says', () => {
  const everything = String.fromCodePoint(...Array.from({ length: 0x3000 }, (_, at) => at));
  const long = `${'🎉'.repeat(10_000)}"\\\n\u0001`;
  for (const body of [everything, long]) {
    const json = payloadText(pack('{"path":"/ä"}', new TextEncoder().encode(body)))!;
    expect(JSON.parse(json)).toEqual({ path: '/ä', body });
  }
});

it('a body that ends within a character is no text', () => {
  expect(payloadText(pack('{}', bytes(0x78, 0xf0, 0x9f)))).toBeNull();
});
