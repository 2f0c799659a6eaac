import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Json, withMembers } from '../../../src/protocol/index.ts';
import { takesFields, usageAsked } from '../../../src/worker/run/send-request.ts';

/** Returns the body with what asks for the usage; null: it stays as it is. */
function askUsage(body: Json): Json | null {
  const edits = usageAsked(body);
  return edits && withMembers(body, edits);
}

const asked = (body: string) => askUsage(body) as string | null;

test.each([
  ['{"stream":true}', '{"stream":true,"stream_options":{"include_usage":true}}'],
  [
    ' {\n "seed": 12345678901234567890, "stream" : true }',
    ' {\n "seed": 12345678901234567890, "stream" : true,"stream_options":{"include_usage":true} }',
  ],
  ['{"stream":true,"stream_options":null}', '{"stream":true,"stream_options":{"include_usage":true}}'],
  ['{"stream":true,"stream_options":{}}', '{"stream":true,"stream_options":{"include_usage":true}}'],
  [
    '{"stream_options": { "x":[1,{"include_usage":false}] } ,"stream":true}',
    '{"stream_options": { "x":[1,{"include_usage":false}],"include_usage":true } ,"stream":true}',
  ],
  [
    '{"stream":true,"stream_options":{"include_usage" : false}}',
    '{"stream":true,"stream_options":{"include_usage" : true}}',
  ],
  [
    '{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":null}}',
    '{"stream":true,"stream_options":{"include_usage":true}}',
  ],
])('%s becomes %s', (given, expected) => {
  expect(asked(given)).toBe(expected);
  expect(Buffer.from(askUsage(Buffer.from(given)) as Uint8Array).toString()).toBe(expected);
});

test.each([
  ['that asks for no stream', '{"messages":[]}'],
  ['that asks for none explicitly', '{"stream":false}'],
  ['whose stream is in a text', '{"x":"\\"stream\\":true"}'],
  ['whose stream is further inside', '{"x":{"stream":true}}'],
  ['whose last stream counts', '{"stream":true,"stream":false}'],
  ['that asks for usage itself', '{"stream":true,"stream_options":{"include_usage":true}}'],
  ['that wants usage in every event', '{"stream":true,"stream_options":{"continuous_usage_stats":true}}'],
  ['whose options are none', '{"stream":true,"stream_options":7}'],
  ['that is no object', '["stream",true]'],
  ['that is no JSON', 'stream: true'],
])('a body %s stays as it is', (_, body) => {
  expect(asked(body)).toBeNull();
  expect(askUsage(Buffer.from(body))).toBeNull();
});

test('whatever a body holds, a parser finds the same in it and the options', () => {
  const fields = fc.dictionary(fc.string(), fc.jsonValue());
  fc.assert(
    fc.property(fields, fc.option(fields), fc.boolean(), (others, options, isFirst) => {
      const given = options === null ? {} : { stream_options: options };
      const body = isFirst ? { stream: true, ...given, ...others } : { ...others, ...given, stream: true };
      const own = (body as { stream_options?: Record<string, unknown> | null }).stream_options;
      fc.pre(own === undefined || own === options);
      fc.pre(options?.continuous_usage_stats === undefined && options?.include_usage !== true);
      const text = asked(JSON.stringify(body));
      // As JSON has it: there is no -0 there.
      const read = JSON.parse(JSON.stringify(body)) as typeof body;
      if (body.stream !== true) expect(text).toBeNull();
      else
        expect(JSON.parse(text!)).toEqual({
          ...read,
          stream_options: { ...(read as { stream_options?: object }).stream_options, include_usage: true },
        });
    }),
  );
});

test('bytes that are no UTF-8 stay as they are', () => {
  const body = Buffer.concat([
    Buffer.from('{"x":"'),
    Buffer.from([0xff, 0xc3]),
    Buffer.from('","stream":true}'),
  ]);
  const text = Buffer.from(askUsage(body) as Uint8Array).toString('latin1');
  expect(text).toBe('{"x":"\xff\xc3","stream":true,"stream_options":{"include_usage":true}}');
});

test.each([
  ['vllm', '0.10.2', true],
  ['vllm', '0.32.0', true],
  ['vllm', '1.0.0rc1', true],
  ['vllm', '0.10.1', false],
  ['vllm', '0.9.2', false],
  ['vllm', '0.1.dev1+g0123456', false],
  ['vllm', null, false],
  ['FastDeploy', '2.3.0', false],
  ['library', '0.32.0', false],
])(
  'an engine whose models are owned by %s, of version %s, is known to take the fields: %s',
  (owner, version, known) => {
    expect(takesFields([{ id: 'tiny', owned_by: owner }], version)).toBe(known);
  },
);
