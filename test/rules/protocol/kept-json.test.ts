import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import {
  engineAnswer,
  keepJson,
  keepMembers,
  keepTree,
  parseFrames,
  QueueFrame,
  WorkerFrame,
  writeJson,
  writeJsonLine,
} from '../../../src/protocol/index.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
/** Other texts than a writer would make of their values. */
const EXACT = ['{"seed": 9007199254740993}', '{"10":1,"9":-0.0}', '[1.0,1e400]', '{"a":"\\u00fc\\/"}'];

describe('a value that keeps its JSON', () => {
  test.each(EXACT)('is written as %s, also within others', (json) => {
    const value = keepJson(JSON.parse(json), json);
    expect(writeJson(value)).toBe(json);
    expect(writeJson({ a: [value, 1], b: value })).toBe(`{"a":[${json},1],"b":${json}}`);
    expect(JSON.stringify({ value })).toBe(JSON.stringify({ value: JSON.parse(json) }));
  });

  it('is written as any other where it is a copy, or keeps nothing', () => {
    const value = keepJson(JSON.parse(EXACT[0]!), EXACT[0]!);
    expect(writeJson({ ...value })).toBe(JSON.stringify(value));
    fc.assert(
      fc.property(fc.jsonValue(), (given) => {
        expect(writeJson(given)).toBe(JSON.stringify(given));
      }),
    );
  });

  it('keeps that of its members, and of what is within down to the levels asked for', () => {
    const json = `{"a":${EXACT[0]},"b":[${EXACT[1]},{"c":${EXACT[2]}}],"n":1.0}`;
    const one = JSON.parse(json);
    keepMembers(one, bytes(json), ['a']);
    expect(writeJson(one)).toBe(`{"a":${EXACT[0]},"b":[{"9":0,"10":1},{"c":[1,null]}],"n":1}`);
    const two = JSON.parse(json);
    keepTree(two, bytes(json), 2);
    expect([two, two.a, two.b, two.b[0]].map(writeJson)).toEqual([
      ...[json, EXACT[0], `[${EXACT[1]},{"c":${EXACT[2]}}]`, EXACT[1]],
    ]);
    expect(writeJson(two.b[1].c)).toBe('[1,null]');
  });

  it('is the last of two members of one name', () => {
    const json = `{"a":${EXACT[0]},"a":${EXACT[1]}}`;
    const value = JSON.parse(json);
    keepTree(value, bytes(json), 1);
    expect(writeJson({ a: value.a })).toBe(`{"a":${EXACT[1]}}`);
  });

  it('is written anew where it is nested too deep to be followed', () => {
    const deep = `{"a":${'['.repeat(600)}1.0${']'.repeat(600)}}`;
    const value = JSON.parse(deep);
    keepMembers(value, bytes(deep), ['a']);
    expect(writeJson(value)).toBe(deep.replace('1.0', '1'));
  });

  it('goes on one line where lines count', () => {
    const value = keepJson({}, '{\r\n\t"a": "\\n"\n}');
    expect(writeJsonLine([value])).toBe('[{ \t"a": "\\n" }]');
  });
});

test('frames keep what is within a result, unless its answer went through a relay', () => {
  const members = '"status":"success","job_type":"engine_request","processed_at":"","answer_bytes":[7.0]';
  const written = (result: string) =>
    parseFrames(WorkerFrame, `{"type":"job_result","job_id":"j","result":${result}}`, 'result').map((read) =>
      read.ok && 'result' in read.value ? writeJson(read.value.result) : null,
    );
  const relayed = `{${members},"http_status":200}`;
  expect(written(relayed)).toEqual([relayed.replace('7.0', '7')]);
  for (const other of [`{${members}}`, `{${members},"http_status":200,"more":{"a":1.0}}`])
    expect(written(other)).toEqual([other]);
});

test('frames keep a member, alone and among others', () => {
  const frame = (payload: string) =>
    `{"type":"job","job_id":"j","fence_token":1,"payload":${payload},"x":{"payload":{}}}`;
  const texts = (message: string) =>
    parseFrames(QueueFrame, message, 'payload').map((read) =>
      read.ok && 'payload' in read.value ? writeJson(read.value.payload) : null,
    );
  expect(texts(frame(EXACT[0]!))).toEqual([EXACT[0]]);
  expect(texts(`[${frame(EXACT[1]!)}, 5, ${frame(EXACT[2]!)}]`)).toEqual([EXACT[1], null, EXACT[2]]);
  const deep = `${'['.repeat(600)}${']'.repeat(600)}`;
  expect(texts(frame(`{"a":${deep},"payload":1}`))).toEqual([`{"a":${deep},"payload":1}`]);
});

describe('the JSON of an engine', () => {
  test.each([
    ['{"a":NaN}', '{"a":null}'],
    ['{"a":[-Infinity,Infinity, NaN ],"b":1.0}', '{"a":[null,null, null ],"b":1.0}'],
    ['{"NaN":"\\"NaN, -Infinity","a":NaN}', '{"NaN":"\\"NaN, -Infinity","a":null}'],
    ['{"a":1.0}', '{"a":1.0}'],
  ])('%s is taken as %s', (given, expected) => {
    expect(writeJson(engineAnswer(given))).toBe(expected);
  });

  it('that is none is a text', () => {
    for (const text of ['NaN,', 'no JSON', '{"a":NaNa}', '']) expect(engineAnswer(text)).toBe(text);
  });

  it('of many megabytes of texts is no trouble', () => {
    const json = `{"a":"${'x\\"'.repeat(4_000_000)}","b":NaN}`;
    expect(engineAnswer(json)).toMatchObject({ b: null });
  });
});
