import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { engineRequestPayload } from '../../../src/gateway/inference/engine-payload.ts';

const PATH = '/v1/chat/completions';
const encoder = new TextEncoder();
const text = (body: string) => new TextDecoder().decode(engineRequestPayload(PATH, encoder.encode(body)));

describe('the payload of a request that passes through', () => {
  it('is the JSON that holds the body as text, character for character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (body) => {
        const whole = { method: 'POST', path: PATH, body, content_type: 'application/json' };
        expect(text(body)).toBe(JSON.stringify(whole));
      }),
    );
  });

  it('escapes every character that JSON escapes', () => {
    const body = Array.from({ length: 0x120 }, (_, code) => String.fromCharCode(code)).join('');
    expect(JSON.parse(text(body)).body).toBe(body);
  });

  it.each([[0xff], [0xc3], [0xed, 0xa0, 0x80], [0x22, 0xf0, 0x9f, 0x99]])(
    'cannot be made of bytes that are no UTF-8: %j, also far behind',
    (...bytes) => {
      const body = new Uint8Array(200_000).fill(0x61);
      body.set(bytes, body.byteLength - bytes.length);
      expect(() => engineRequestPayload(PATH, body)).toThrow(
        expect.objectContaining({ status: 400, code: 'invalid_utf8' }),
      );
    },
  );

  it('takes characters that lie across the pieces in which they are looked at', () => {
    const body = `a${'🙂'.repeat(70_000)}`;
    expect(JSON.parse(text(body)).body).toBe(body);
  });

  it('that does not fit into a frame, since so much of it must be escaped, is refused with 413', () => {
    const quotes = new Uint8Array(15 * 1024 * 1024).fill(0x22);
    expect(() => engineRequestPayload(PATH, quotes)).toThrow(expect.objectContaining({ status: 413 }));
    const letters = new Uint8Array(20 * 1024 * 1024).fill(0x61);
    expect(engineRequestPayload(PATH, letters).byteLength).toBeGreaterThan(letters.byteLength);
  });
});
