import { describe, expect, it } from 'vitest';
import { engineCall } from '../../../src/gateway/inference/engine-request.ts';
import { unpack } from '../../../src/protocol/index.ts';

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

interface Sent {
  method?: string;
  path?: string;
  headers?: Record<string, string>;
}

function call(body: Uint8Array | string, sent: Sent = {}) {
  const { method = 'POST', path = '/v1/chat/completions', headers = {} } = sent;
  const request = new Request(`http://road${path}`, { method, headers });
  const bytes = typeof body === 'string' ? encode(body) : body;
  const { facts, payload } = engineCall(request, path, bytes);
  const packed = unpack(payload)!;
  return { facts, head: JSON.parse(packed.head), body: packed.body };
}

const JSON_TYPE = { 'content-type': 'application/json' };

describe('a request on its way to an engine', () => {
  it('keeps its body byte for byte, also where that is no UTF-8', () => {
    const body = new Uint8Array([...encode('{"model":"tiny","x":"'), 0xff, 0xc3, 0x00, ...encode('"}')]);
    const sent = call(body, { headers: JSON_TYPE });
    expect([...sent.body]).toEqual([...body]);
    expect(sent.facts.model).toBe('tiny');
  });

  it('is refused in another encoding, which some engines guess', () => {
    const body = Buffer.from('{"model":"tiny","kv_transfer_params":{}}', 'utf16le');
    expect(() => call(body, { headers: JSON_TYPE })).toThrow(
      expect.objectContaining({ status: 400, message: expect.stringContaining('UTF-16') }),
    );
  });

  it('keeps method, path, query and content type', () => {
    const { head } = call('{}', {
      path: '/tokenize?a=1&b=%20',
      headers: { 'content-type': 'application/json; charset=utf-8' },
    });
    expect(head).toEqual({
      method: 'POST',
      path: '/tokenize?a=1&b=%20',
      content_type: 'application/json; charset=utf-8',
      headers: {},
    });
  });

  it('carries chosen headers and no others', () => {
    const { head } = call('{}', {
      headers: {
        ...JSON_TYPE,
        'X-Session-ID': 's',
        'X-Vllm-Priority': '-1',
        'X-data-parallel-rank': '1',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        'endpoint-load-metrics-format': 'JSON',
        'anthropic-version': '2023-06-01',
        accept: 'text/event-stream',
        authorization: 'Bearer secret',
        cookie: 'a=b',
        host: 'elsewhere',
        'x-forwarded-for': '10.0.0.1',
        'accept-encoding': 'gzip',
      },
    });
    expect(head.headers).toEqual({
      'x-session-id': 's',
      'x-vllm-priority': '-1',
      'x-data-parallel-rank': '1',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'endpoint-load-metrics-format': 'JSON',
      'anthropic-version': '2023-06-01',
      accept: 'text/event-stream',
    });
  });

  it('has the id of its header, else of its body, else none: it is known by its job', () => {
    const idOf = (body: string, headers = {}) =>
      call(body, { headers: { ...JSON_TYPE, ...headers } }).head.headers['x-request-id'];
    expect(idOf('{"request_id":"body"}', { 'x-request-id': 'header' })).toBe('header');
    expect(idOf('{"request_id":"body"}')).toBe('body');
    expect(idOf('{"request_id":"no header \\u00e9"}')).toBeUndefined();
    expect(idOf('{"request_id":7}')).toBeUndefined();
    expect(idOf('{}')).toBeUndefined();
  });

  it('is JSON where its client named no type, or the one that clients add by themselves', () => {
    for (const type of [undefined, 'application/x-www-form-urlencoded', 'text/plain;charset=UTF-8']) {
      const sent = call('{"model":"tiny","stream":true}', { headers: type ? { 'content-type': type } : {} });
      expect(sent.head.content_type).toBe('application/json');
      expect(sent.facts).toMatchObject({ model: 'tiny', stream: true, includeUsage: false });
    }
  });

  it('may have a body of any other type, and then names its model in a header or the query', () => {
    const body = new Uint8Array([0, 1, 2, 255]);
    const headers = { 'content-type': 'audio/wav' };
    expect(call(body, { path: '/v1/ocr?model=tiny', headers })).toMatchObject({
      facts: { model: 'tiny', stream: false },
      head: { content_type: 'audio/wav' },
      body,
    });
    expect(
      call(body, { path: '/v1/ocr?model=tiny', headers: { ...headers, 'x-model': 'other' } }).facts.model,
    ).toBe('other');
    expect(call(body, { headers }).facts.model).toBeNull();
  });

  it('may have no body at all', () => {
    const sent = call('', { method: 'GET', path: '/v1/responses/resp_1?stream=true' });
    expect(sent.facts).toMatchObject({ model: null, stream: true, includeUsage: false });
    expect(sent.head).toEqual({ method: 'GET', path: '/v1/responses/resp_1?stream=true', headers: {} });
    expect(sent.body.byteLength).toBe(0);
  });

  it('loses no byte order mark but that of JSON', () => {
    const mark = [0xef, 0xbb, 0xbf];
    const marked = new Uint8Array([...mark, ...encode('{"model":"tiny"}')]);
    expect(decode(call(marked, { headers: JSON_TYPE }).body)).toBe('{"model":"tiny"}');
    const table = new Uint8Array([...mark, ...encode('a,b')]);
    expect([...call(table, { headers: { 'content-type': 'text/csv' } }).body]).toEqual([...table]);
  });

  it('is refused with a type that no worker would send on, and with an address that is too long', () => {
    expect(() => call('{}', { headers: { 'content-type': 'json' } })).toThrow(
      expect.objectContaining({ status: 400, code: 'invalid_content_type' }),
    );
    expect(() => call('{}', { path: `/tokenize?a=${'x'.repeat(2048)}` })).toThrow(
      expect.objectContaining({ status: 414 }),
    );
  });
});

describe('a form', () => {
  const BOUNDARY = '----road';
  const type = { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` };
  const file = new Uint8Array([0x0d, 0x0a, 0x2d, 0x2d, 0, 255, 0x0d, 0x0a, ...encode('------roa'), 0x0d]);
  const form = (fields: Record<string, string>) => {
    const part = (headers: string) =>
      encode(`--${BOUNDARY}\r\nContent-Disposition: form-data; ${headers}\r\n\r\n`);
    return Buffer.concat([
      part('name="file"; filename="model.wav"\r\nContent-Type: audio/wav'),
      file,
      ...Object.entries(fields).flatMap(([name, value]) => [
        encode('\r\n'),
        part(`name="${name}"`),
        encode(value),
      ]),
      encode(`\r\n--${BOUNDARY}--\r\n`),
    ]);
  };

  it('names its model and whether it streams in fields, and keeps its files byte for byte', () => {
    const body = form({ model: 'tiny', stream: 'true', prompt: 'model' });
    const sent = call(body, { path: '/v1/audio/transcriptions', headers: type });
    expect(sent.facts).toMatchObject({ model: 'tiny', stream: true, includeUsage: false });
    expect(Buffer.from(sent.body).equals(body)).toBe(true);
    expect(sent.head.content_type).toBe(type['content-type']);
  });

  it('needs no model, and takes no file for one', () => {
    expect(call(form({}), { headers: type }).facts.model).toBeNull();
    expect(call(form({ model: '' }), { headers: type }).facts.model).toBeNull();
    expect(() => call('not a form', { headers: type })).toThrow(
      expect.objectContaining({ status: 400, code: 'invalid_form' }),
    );
  });
});
