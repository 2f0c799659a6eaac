import { describe, expect, it } from 'vitest';
import { windowMs } from '../../../src/batches/batch.ts';
import { readLine, requestOf, splitLines } from '../../../src/batches/input-lines.ts';

import { ANY_ENDPOINT, inferenceRoutes, lineJobId, lineOfJob } from '../../../src/protocol/index.ts';

const URL = '/v1/chat/completions';
const ROUTES = inferenceRoutes();
const encode = (text: string) => new TextEncoder().encode(text);

function prefixOf(messages: object[]): number {
  const line = readLine(
    encode(JSON.stringify({ custom_id: 'a', url: URL, body: { messages } })),
    1,
    URL,
    ROUTES,
  );
  return (line as { prefix: number }).prefix;
}

describe('a line of a batch', () => {
  it('stands beside others with the same system prompt', () => {
    const system = { role: 'system', content: 'Be brief.' };
    const ask = (content: string) => ({ role: 'user', content });
    expect(prefixOf([system, ask('a')])).toBe(prefixOf([system, ask('b')]));
    expect(prefixOf([system, ask('a')])).not.toBe(prefixOf([ask('a')]));
  });

  it('keeps its numbers and the order of its fields', () => {
    const body = '{"z":1.50,"seed":12345678901234567890,"model":"m","a":1e400}';
    expect(requestOf(encode(`{"custom_id":"a","url":"${URL}","body":${body}}`))).toEqual({
      path: URL,
      body,
      model: 'm',
    });
  });

  it.each([
    [URL, '/score', 'url_mismatch'],
    [ANY_ENDPOINT, '/score', undefined],
    [ANY_ENDPOINT, '/v1/rerank', undefined],
    [ANY_ENDPOINT, '/sleep', 'invalid_url'],
    [ANY_ENDPOINT, ANY_ENDPOINT, 'invalid_url'],
    [ANY_ENDPOINT, undefined, 'invalid_url'],
  ])('of a batch for %s that asks for %s is told: %s', (endpoint, url, code) => {
    const line = readLine(encode(JSON.stringify({ custom_id: 'a', url, body: {} })), 1, endpoint, ROUTES);
    expect((line as { code?: string }).code).toBe(code);
  });

  it('has a custom_id that its answer can repeat, whatever characters are in it', () => {
    const read = (custom_id: string) =>
      readLine(encode(`{"custom_id":"${custom_id}","url":"${URL}","body":{}}`), 1, URL, ROUTES);
    expect(read('\\ud83d\\ude00 \\u0000 ü')).toMatchObject({ custom_id: '😀 \0 ü' });
    expect(read('half \\ud83d')).toMatchObject({ code: 'invalid_parameter', param: 'custom_id' });
  });

  it('with millions of small values is refused without being parsed; one of many numbers is taken', () => {
    const line = (user: string) =>
      encode(`{"custom_id":"a","url":"${URL}","body":{"model":"m","user":${user}}}`);
    expect(readLine(line(`[${'{},'.repeat(1_000_000)}{}]`), 1, URL, ROUTES)).toMatchObject({
      code: 'invalid_json_line',
      message: expect.stringContaining('more than 250000'),
    });
    const ids = line(`[${'128000,'.repeat(500_000)}1]`);
    expect(readLine(ids, 1, URL, ROUTES)).toMatchObject({ custom_id: 'a', model: 'm' });
    expect(requestOf(ids).body).toHaveLength(
      ids.byteLength - `{"custom_id":"a","url":"${URL}","body":}`.length,
    );
  });

  it.each([
    '{"custom_id":"a"',
    '[]',
    'x',
    '',
    '{"custom_id":"a","url":"/","body":{"a":}}',
    '{"body":{"a":tru}}',
  ])('that is %j is told to be no JSON', (text) => {
    expect(readLine(encode(text), 7, URL, ROUTES)).toMatchObject({ code: 'invalid_json_line', line: 7 });
  });

  it('that is no UTF-8 is told so, with the offset, also where it is too long to be parsed', () => {
    for (const more of ['1', `[${'1,'.repeat(50_000)}"a"${',"b"'.repeat(10_000)}]`]) {
      const text = `{"custom_id":"a","url":"${URL}","body":{"x":${more},"y":"Grüße"}}`;
      expect(readLine(encode(text), 1, URL, ROUTES)).toMatchObject({ custom_id: 'a' });
      expect(readLine(Buffer.from(text, 'latin1'), 1, URL, ROUTES)).toMatchObject({
        code: 'invalid_json_line',
        message: expect.stringContaining(`0xfc at offset ${text.indexOf('ü')}`),
      });
      expect(readLine(Buffer.from(text, 'utf16le'), 1, URL, ROUTES)).toMatchObject({
        code: 'invalid_json_line',
        message: expect.stringContaining('This line is encoded in UTF-16'),
      });
    }
  });

  it('is found again by the id of its job', () => {
    expect(lineOfJob(lineJobId('batch_aZ9', 17))).toEqual({ batchId: 'batch_aZ9', line: 17 });
    expect(lineOfJob('report-17')).toBeNull();
    expect(lineOfJob('batch_a.b')).toBeNull();
  });
});

describe('the lines of a file', () => {
  const TEXT = '\ufeff{"a":"größer"}\r\n\r\n{"b":2}\n{"c":3}';

  it('are the same wherever its pieces are cut', () => {
    const bytes = encode(TEXT);
    for (let at = 1; at <= bytes.byteLength; at++) {
      const first = splitLines(bytes.subarray(0, at), { bytes: 0, lines: 0 }, at === bytes.byteLength);
      const before = { bytes: first.taken, lines: first.passed };
      const rest = splitLines(bytes.subarray(first.taken), before, true);
      const lines = [...first.lines, ...(at === bytes.byteLength ? [] : rest.lines)];
      expect(lines.map(({ bytes }) => new TextDecoder().decode(bytes).trim())).toEqual([
        '{"a":"größer"}',
        '{"b":2}',
        '{"c":3}',
      ]);
      expect(lines.map(({ number }) => number)).toEqual([1, 3, 4]);
      for (const { offset, length, bytes: line } of lines) {
        const part = new TextDecoder().decode(bytes.subarray(offset, offset + length));
        expect(part.trim()).toBe(new TextDecoder().decode(line).trim());
      }
    }
  });
});

describe('the window of a batch', () => {
  it.each([
    ['24h', 86_400_000],
    ['90m', 5_400_000],
    ['7d', 604_800_000],
    ['31d', null],
    ['0h', null],
    ['5s', null],
    ['', null],
  ])('%s is %s ms', (text, ms) => expect(windowMs(text)).toBe(ms));
});
