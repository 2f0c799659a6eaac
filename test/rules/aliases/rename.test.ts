import { describe, expect, it } from 'vitest';
import { textWithTarget, withTarget } from '../../../src/aliases/rename.ts';
import { pack, unpack } from '../../../src/protocol/index.ts';

const encode = (text: string) => new TextEncoder().encode(text);

function renamed(body: Uint8Array | string, content_type: string | null = 'application/json'): string {
  const head = JSON.stringify({ method: 'POST', path: '/v1/chat/completions', content_type });
  const given = pack(head, typeof body === 'string' ? encode(body) : body);
  const payload = unpack(withTarget('engine_request', given, 'gpt-4o', 'org/my-model'))!;
  expect(payload.head).toBe(head);
  return new TextDecoder().decode(payload.body);
}

describe('the payload of a request for an alias', () => {
  it('names the model, and nothing else in it changes', () => {
    expect(renamed('{ "n": 1.0, "model" : "gpt-4o", "messages":[{"model":"gpt-4o"}] }')).toBe(
      '{ "n": 1.0, "model" : "org/my-model", "messages":[{"model":"gpt-4o"}] }',
    );
    expect(renamed('{"model":"gpt-\\u0034o"}')).toBe('{"model":"org/my-model"}');
  });

  it('stays as it is where the body names another model or none', () => {
    expect(renamed('{"model":"c"}')).toBe('{"model":"c"}');
    expect(renamed('{}')).toBe('{}');
    expect(renamed('gpt-4o', 'audio/wav')).toBe('gpt-4o');
  });

  it('may be a form', () => {
    const form = (model: string) =>
      ['model', 'prompt']
        .map(
          (name) =>
            `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${name === 'model' ? model : 'gpt-4o'}\r\n`,
        )
        .join('');
    expect(renamed(`${form('gpt-4o')}--b--\r\n`, 'multipart/form-data; boundary=b')).toBe(
      `${form('org/my-model')}--b--\r\n`,
    );
  });

  it.each([
    ['chat_completion', { model: 'gpt-4o', messages: [] }, { model: 'big', messages: [] }],
    [
      'engine_request',
      { method: 'POST', path: '/v1/completions', body: '{"model":"gpt-4o"}' },
      { method: 'POST', path: '/v1/completions', body: '{"model":"big"}' },
    ],
    ['runpod', { model: 'gpt-4o', input: { prompt: 'a' } }, { model: 'big', input: { prompt: 'a' } }],
    ['chat_completion', { model: 'other', messages: [] }, { model: 'other', messages: [] }],
  ])('of a stored job of type %s is renamed at its place', (type, given, expected) => {
    expect(JSON.parse(textWithTarget(type, JSON.stringify(given), 'gpt-4o', 'big'))).toEqual(expected);
  });
});
