import { describe, expect, it } from 'vitest';
import { requestBody } from '../../../src/worker/run/request-body.ts';

const ALIASES = new Set(['default', 'größe']);
const send = (fields: object, served: string | undefined = 'tiny-ß') =>
  requestBody({ method: 'POST', path: '/v1/completions', ...fields }, ALIASES, served);

describe('the body that a worker sends to its engine', () => {
  it('has the engine’s own name where it has an alias, as text and as bytes', () => {
    const text = '{"model":"größe","prompt":"größe ü"}';
    const wanted = '{"model":"tiny-ß","prompt":"größe ü"}';
    expect(send({ body: text })).toBe(wanted);
    expect(Buffer.from(send({ body: Buffer.from(text) })!).toString()).toBe(wanted);
  });

  it('keeps bytes that are no UTF-8', () => {
    const body = Buffer.concat([
      Buffer.from('{"model":"default","x":"'),
      Buffer.from([0xff, 0xc3]),
      Buffer.from('"}'),
    ]);
    const sent = Buffer.from(send({ body })!);
    expect(sent.subarray(-4)).toEqual(body.subarray(-4));
    expect(sent.toString()).toContain('"model":"tiny-ß"');
  });

  it('is the same bytes where nothing is to be replaced', () => {
    for (const body of [Buffer.from('{"model":"other"}'), Buffer.from([1, 2, 255]), Buffer.from('[]')]) {
      expect(send({ body })).toBe(body);
    }
    const body = Buffer.from('{"model":"default"}');
    expect(requestBody({ method: 'POST', path: '/x', body }, ALIASES, undefined)).toBe(body);
    expect(send({})).toBeUndefined();
  });

  it('has the engine’s own name in the field of a form', () => {
    const form = (model: string) =>
      `--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\ndefault\r\n--b--`;
    const content_type = 'multipart/form-data; boundary=b';
    const sent = send({ body: Buffer.from(form('default')), content_type });
    expect(Buffer.from(sent!).toString()).toBe(form('tiny-ß'));
  });

  it('may be given in base64', () => {
    const body_base64 = Buffer.from([0, 255, 1]).toString('base64');
    expect([...(send({ body_base64, content_type: 'audio/wav' }) as Buffer)]).toEqual([0, 255, 1]);
  });
});
