import { isObject } from './fields.ts';
import { outsideStrings } from './json-edit.ts';
import { keepTree } from './kept-json.ts';

/**
 * Matches the numbers NaN and Infinity, which engines in Python write and JSON does not have. No caller's parser would
 * take them, so this file puts `null` in their place.
 */

const NO_NUMBERS = /-?\b(?:NaN|Infinity)\b/g;

/** Returns an answer's JSON as parsers take it, or null where the answer is no JSON. */
export function engineJson(text: string): { value: unknown; json: string } | null {
  const value = parsed(text);
  if (value !== undefined) return { value, json: text };
  if (!text.includes('NaN') && !text.includes('Infinity')) return null;
  const json = outsideStrings(text, (part) => part.replaceAll(NO_NUMBERS, 'null'));
  const mended = json === text ? undefined : parsed(json);
  return mended === undefined ? null : { value: mended, json };
}

/** Returns the object that an engine's JSON stands for, or an empty one where it stands for none. */
export function objectIn(json: string): Record<string, unknown> {
  const value = engineJson(json)?.value;
  return isObject(value) ? value : {};
}

/** Returns the value of an engine's answer, which keeps its JSON, or the text itself where that is no JSON. */
export function engineAnswer(text: string): unknown {
  const read = engineJson(text);
  if (read === null) return text;
  // The choices of a completion keep their JSON too.
  keepTree(read.value, encoder.encode(read.json), 1);
  return read.value;
}

const encoder = new TextEncoder();

/** Returns the value of a text, or undefined where the text is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
