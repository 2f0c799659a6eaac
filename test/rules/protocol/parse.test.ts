import { expect, test } from 'vitest';
import * as z from 'zod';
import { bounds, parseFrames, parseJson, WorkerFrame } from '../../../src/protocol/index.ts';

const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const parse = (text: string) => parseJson(z.object({ a: z.unknown() }), text);
const FILLER = 'x'.repeat(100_000);

test('a long text that is nested too deep is refused without being parsed', () => {
  expect(parse(`{"a":${'['.repeat(4_000_000)}`)).toEqual({
    ok: false,
    message: `nested deeper than ${bounds.JSON_DEPTH} levels`,
  });
  expect(parse(`{"b":"${FILLER}","a":${nested(bounds.JSON_DEPTH)}}`).ok).toBe(false);
  expect(parse(`{"b":"${FILLER}","a":${nested(bounds.JSON_DEPTH - 1)}}`).ok).toBe(true);
});

test('brackets in strings nest nothing', () => {
  const text = `${FILLER}${'['.repeat(10_000)}\\"${'{'.repeat(10_000)}`;
  expect(parse(JSON.stringify({ a: text })).ok).toBe(true);
});

test('a type that is no text is named as it came, even where it cannot be made one', () => {
  for (const type of ['{"toString":1}', '["job"]', '1', 'null']) {
    const [parsed] = parseFrames(WorkerFrame, `{"type":${type}}`);
    expect(parsed).toMatchObject({ ok: false, message: `unknown frame type "${type}"`, unknownType: type });
  }
});
