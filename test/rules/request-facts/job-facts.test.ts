import { describe, expect, it } from 'vitest';
import { jobFacts, withModel } from '../../../src/request-facts/job-facts.ts';

/** All forms of a stored job × all encodings of a body × all that is judged: the facts are those of the body alone. */

const bytes = (text: string) => new TextEncoder().encode(text);
const base64 = (body: Uint8Array | string) => Buffer.from(body).toString('base64');
const utf32 = (text: string) =>
  Buffer.concat(
    [...text].map((character) => {
      const unit = Buffer.alloc(4);
      unit.writeUInt32LE(character.codePointAt(0)!);
      return unit;
    }),
  );
const swapped = (text: string) => Buffer.from(text, 'utf16le').swap16();

type Form = (body: string) => readonly [type: string, payload: object];

/** Each names an honest model beside its body, which nothing may go by. */
const DECOY = { model: 'decoy', max_tokens: 1, priority: 0, n: 1 };
const FORMS: Record<string, Form> = {
  'engine_request, text': (body) => ['engine_request', { path: '/v1/chat/completions', body }],
  'engine_request, base64': (body) => [
    'engine_request',
    { path: '/v1/chat/completions', body_base64: base64(body), content_type: 'application/json' },
  ],
  'engine_request, base64 of a type that is not told': (body) => [
    'engine_request',
    { path: '/v1/chat/completions', body_base64: base64(body), content_type: 'application/octet-stream' },
  ],
  'runpod, openai_input': (body) => [
    'runpod',
    { ...DECOY, input: { ...DECOY, openai_input: JSON.parse(body) } },
  ],
  'runpod, openai_input as text': (body) => ['runpod', { ...DECOY, input: { ...DECOY, openai_input: body } }],
  'runpod, body': (body) => [
    'runpod',
    { ...DECOY, input: { ...DECOY, route: '/v1/chat/completions', body: JSON.parse(body) } },
  ],
  'runpod, body as text': (body) => [
    'runpod',
    { ...DECOY, input: { ...DECOY, route: '/v1/chat/completions', body } },
  ],
  'runpod, sampling_params': (body) => {
    const { messages, ...sampling_params } = JSON.parse(body);
    return ['runpod', { ...DECOY, input: { ...DECOY, messages, sampling_params } }];
  },
  chat_completion: (body) => ['chat_completion', JSON.parse(body)],
  llm_inference: (body) => ['llm_inference', JSON.parse(body)],
  'a task': (body) => ['openai/chat-completion', JSON.parse(body)],
};
const forms = Object.entries(FORMS);

const facts = ([type, payload]: ReturnType<Form>) => jobFacts(type, bytes(JSON.stringify(payload)));
const MESSAGES = [{ role: 'user', content: 'größer 🙂' }];

describe.each(forms)('a job as %s', (_, form) => {
  const read = (fields: object) => facts(form(JSON.stringify({ messages: MESSAGES, ...fields })));

  it('is of the model, the priority and the lengths that its body names', () => {
    const { model, body, lengths } = read({ model: 'own', priority: -5, max_tokens: 77, n: 3 });
    expect({ model, priority: body.priority }).toEqual({ model: 'own', priority: -5 });
    expect(lengths).toMatchObject({ most: 77, answers: 3 });
  });

  it.each([
    { kv_transfer_params: { do_remote_decode: true } },
    { kv_transfer_params: { prompt_token_ids: [1] } },
    { ec_transfer_params: 'x' },
    { vllm_xargs: { kv_transfer_params: 1 } },
    { extra_args: { kv_transfer_params: 1 } },
    { sampling_params: { extra_args: { ec_transfer_params: [] } } },
    { sampling_params: { vllm_xargs: { extra_args: { kv_transfer_params: {} } } } },
    { disaggregate_info: { prefill_ip: '10.0.0.1' } },
    { bootstrap_host: '10.0.0.1', bootstrap_port: 1, bootstrap_room: 1 },
    { extra_body: { disaggregated_params: { request_type: 'generation_only' } } },
  ])('brings no %j', (fields) => {
    expect(() => read(fields)).toThrow(expect.objectContaining({ code: 'transfer_params_refused' }));
  });

  it.each([1, 0, 'true', 'yes', [], {}])('asks for a stream by true alone, not by %j', (stream) => {
    expect(() => read({ stream })).toThrow(expect.objectContaining({ code: 'invalid_stream' }));
    expect(read({ stream: true }).body.stream).toBe(true);
    expect(read({ stream: null }).body.stream).toBe(false);
  });

  it.each(['Model', 'MODEL', 'mod\u0065L', '\u017ftream', 'Max_Tokens', 'Priority'])(
    'names what it asks for as everybody reads it, not as %j',
    (name) => {
      expect(() => read({ model: 'own', [name]: 'other' })).toThrow(
        expect.objectContaining({ code: 'invalid_field' }),
      );
    },
  );

  it('is of a model that is a text', () => {
    expect(() => read({ model: ['own'] })).toThrow(expect.objectContaining({ code: 'invalid_model' }));
  });

  it('gets another name for its model where that stands, and nothing else', () => {
    const [type, payload] = form('{"model":"alias","seed":9007199254740993,"messages":[]}');
    const text = JSON.stringify(payload);
    const renamed = withModel(text, jobFacts(type, bytes(text)), 'own');
    const again = jobFacts(type, bytes(renamed));
    expect(again.model).toBe('own');
    expect(new TextDecoder().decode(again.request.body)).not.toContain('alias');
  });
});

const ENCODINGS: Record<string, (text: string) => Uint8Array> = {
  'with a mark': (text) => Buffer.from(`\ufeff${text}`),
  'UTF-16 LE': (text) => Buffer.from(text, 'utf16le'),
  'UTF-16 LE with a mark': (text) => Buffer.from(`\ufeff${text}`, 'utf16le'),
  'UTF-16 BE': swapped,
  'UTF-16 BE with a mark': (text) => swapped(`\ufeff${text}`),
  'UTF-32 LE': utf32,
  'UTF-32 BE': (text) => utf32(text).swap32(),
  'UTF-32 LE with a mark': (text) => utf32(`\ufeff${text}`),
  'latin-1': (text) => Buffer.from(text, 'latin1'),
  'blanks and a mark': (text) => Buffer.from(` \n\ufeff${text}`),
};

describe.each(Object.entries(ENCODINGS))('a body in %s', (_, encode) => {
  const BODY = JSON.stringify({ model: 'other', kv_transfer_params: { a: 'ü' } });

  it.each([undefined, 'application/json', 'application/json; charset=utf-16', 'application/vnd.x+json'])(
    'reaches no engine as %s',
    (content_type) => {
      const payload = {
        path: '/v1/completions',
        model: 'own',
        content_type,
        body_base64: base64(encode(BODY)),
      };
      expect(() => facts(['engine_request', payload])).toThrow(/payload\.body_base64: /);
    },
  );
});

describe('a text', () => {
  it.each<[string, ReturnType<Form>]>([
    ['with a mark', ['engine_request', { path: '/v1/completions', body: '\ufeff{"model":"other"}' }]],
    ['with a mark, of RunPod’s', ['runpod', { input: { openai_input: '\ufeff{"model":"other"}' } }]],
    ['that is a list', ['engine_request', { path: '/v1/completions', body: '[{"model":"other"}]' }]],
    ['that is no JSON', ['runpod', { input: { route: '/v1/completions', body: 'model=other' } }]],
    [
      'with more behind it',
      ['engine_request', { path: '/v1/completions', body: '{"model":"a"}{"model":"b"}' }],
    ],
  ])('%s is refused', (_, job) => {
    expect(() => facts(job)).toThrow(expect.objectContaining({ name: 'RequestFault' }));
  });
});

describe('a job that says two things', () => {
  const LONG_ZERO = `0.${'0'.repeat(40)}`;

  it.each(['openai_route', 'openai_input'])(
    'goes by what its worker takes %s for, which is none where it is 0',
    (name) => {
      const input = `{"${name}":${LONG_ZERO},"route":"/v1/completions","body":{"model":"other"}}`;
      const { model, request } = jobFacts('runpod', bytes(`{"model":"own","input":${input}}`));
      expect({ model, path: request.path }).toEqual({ model: 'other', path: '/v1/completions' });
    },
  );

  it.each<[string, ReturnType<Form>, RegExp]>([
    ['two bodies', ['engine_request', { path: '/x', body: '{}', body_base64: base64('{}') }], /not both/],
    [
      'two bodies of RunPod’s',
      ['runpod', { input: { openai_input: {}, route: '/v1/x', body: {} } }],
      /not both/,
    ],
    [
      'a model beside another',
      ['engine_request', { path: '/x', model: 'a', body: '{"model":"b"}' }],
      /"a".*"b"/,
    ],
    [
      'a model beside a body that names none',
      ['engine_request', { path: '/x', model: 'a', body: '{"prompt":"x"}' }],
      /"a".* none/,
    ],
    [
      'one cache and none',
      [
        'runpod',
        { input: { openai_input: '{"vllm_xargs":{"kv_transfer_params":1,"kv_transfer_params":null}}' } },
      ],
      /leave it out/,
    ],
    [
      'JSON in another character set',
      ['engine_request', { path: '/x', body: '{}', content_type: 'application/json; charset="utf-7"' }],
      /UTF-8/,
    ],
    [
      'that it goes on',
      ['engine_request', { path: '/x', body: '{}', continues: { prompt_tokens: 1 } }],
      /queues alone/,
    ],
    [
      'a form that is JSON',
      ['engine_request', { path: '/x', body: '{}', content_type: 'multipart/form-data; boundary=b' }],
      /no form/,
    ],
    [
      'an encoded form',
      ['engine_request', { path: '/x', body: 'model=b', content_type: 'application/x-www-form-urlencoded' }],
      /multipart\/form-data/,
    ],
  ])('%s is refused', (_, job, why) => {
    expect(() => facts(job)).toThrow(why);
  });

  it('is for what stands beside its body where that names none, and a worker puts it in', () => {
    const { model, body } = facts(['runpod', { model: 'endpoint', input: { model: 'decoy', prompt: 'Hi' } }]);
    expect({ model, inBody: body.model }).toEqual({ model: 'endpoint', inBody: null });
  });
});

it('looks for caches no deeper than engines do, however long the rest is', () => {
  const deep = `${'{"vllm_xargs":'.repeat(400)}{"a":[${'1,'.repeat(2_000_000)}1]}${'}'.repeat(400)}`;
  expect(() => facts(['engine_request', { path: '/v1/completions', body: deep }])).toThrow(
    expect.objectContaining({ code: 'nested_too_deep' }),
  );
});

it.each(['utf-8', '"UTF8"', 'iso-8859-1', 'windows-1252'])('reads JSON that is called %s', (charset) => {
  const content_type = `application/json; charset=${charset}`;
  const { model } = facts(['engine_request', { path: '/x', body: '{"model":"own"}', content_type }]);
  expect(model).toBe('own');
});
