import { expect, it } from 'vitest';
import { typedJson } from '../../../src/dashboard/typed-json.ts';

it.each([
  ['', 'line 1, column 1 should have a value, but the text ends'],
  ['{"a": 1', 'line 1, column 8 should have , or the closing bracket, but the text ends'],
  ['{\n  "a": [1,]\n}', 'line 2, column 11 should have a value, but "]" stands there'],
  ['{"a": 1,}', 'line 1, column 9 should have a name in double quotes, but "}" stands there'],
  ["{'a': 1}", 'line 1, column 2 should have a name in double quotes or }, but "\'" stands there'],
  ['{"a" 1}', 'line 1, column 6 should have : after the name, but "1" stands there'],
  ['{"a": True}', 'line 1, column 7 should have a value, but "T" stands there'],
  ['{"a": "b\nc"}', 'line 1, column 7 should have a value, but the string there has no end, a line break'],
  ['{"a": 1} x', 'line 1, column 10 should have nothing more, but "x" stands there'],
])('says where %j is no JSON, and why', (text, message) => {
  const typed = typedJson(text);
  expect('fault' in typed && typed.fault).toContain(message);
});

it('reads what is JSON', () => {
  expect(typedJson(' {"a": [1, {"b": null}]}\n')).toEqual({ value: { a: [1, { b: null }] } });
});

it('finds every fault where the engine of the browser finds it', () => {
  const whole = '{"a":[1,-2.5e3,{"b":"c\\n"},[]],"d":{},"e":null,"f":true}';
  let compared = 0;
  for (let at = 0; at < whole.length; at += 1) {
    for (const put of ['', ',', ':', '"', '}', ']', '{', '[', '1', '%']) {
      const text = whole.slice(0, at) + put + whole.slice(at + 1);
      const typed = typedJson(text);
      let told: string | undefined;
      try {
        JSON.parse(text);
      } catch (error) {
        told = (error as Error).message;
      }
      expect('fault' in typed, text).toBe(told !== undefined);
      const position = /in JSON at position (\d+)/.exec(told ?? '')?.[1];
      // Within a string or a number engines differ.
      if (!position || !('fault' in typed) || /string|number|escape/.test(told!)) continue;
      compared += 1;
      expect(typed.at, text).toBe(Number(position));
    }
  }
  expect(compared).toBeGreaterThan(100);
});
