import { JsonFault, utf8Text } from './bytes.ts';
import { isObject } from './fields.ts';
import { outsideStrings } from './json-edit.ts';
import { eachMember, elementsOf, jsonFields } from './json-text.ts';

/**
 * Keeps the JSON that parsed values came from, so that code can read the value and write the original text. Text that
 * is written anew differs: numbers over 2^53 are rounded and keys such as "10" move to the front. A kept value is never
 * changed; a copy of it is written as any other value.
 */

const texts = new WeakMap<object, string>();

/** Keeps the JSON of an object or an array; other values have no identity, and keep none. @returns the value */
export function keepJson<T>(value: T, json: string): T {
  if (isNested(value)) texts.set(value, json);
  return value;
}

/**
 * Keeps the JSON of some members of an object, or of each object of an array.
 * @param value the parsed `json`
 */
export function keepMembers(value: unknown, json: Uint8Array, names: readonly string[]): void {
  keeping(() => keepNamed(value, json, names));
}

function keepNamed(value: unknown, json: Uint8Array, names: readonly string[]): void {
  if (Array.isArray(value)) {
    const elements = elementsOf(json, Number.POSITIVE_INFINITY);
    for (const [index, element] of elements.entries()) keepNamed(value[index], element, names);
  } else if (isObject(value)) {
    const members = jsonFields(json, names, Number.POSITIVE_INFINITY);
    for (const [name, member] of Object.entries(members)) keepJson(value[name], utf8Text(member!));
  }
}

/**
 * Keeps the JSON of a value and of the values within it, down to so many levels.
 * @param value the parsed `json`
 */
export function keepTree(value: unknown, json: Uint8Array, levels: number): void {
  keeping(() => keepWithin(value, json, levels));
}

function keepWithin(value: unknown, json: Uint8Array, levels: number): void {
  if (!isNested(value)) return;
  texts.set(value, utf8Text(json));
  if (levels === 0) return;
  if (Array.isArray(value)) {
    // Numbers keep no JSON, and an array may have a million.
    if (!value.some(isNested)) return;
    const elements = elementsOf(json, Number.POSITIVE_INFINITY);
    for (const [index, element] of elements.entries()) keepWithin(value[index], element, levels - 1);
  } else {
    const keep = (name: string, valueStart: number, end: number) => {
      const inner = (value as Record<string, unknown>)[name];
      if (isNested(inner)) keepWithin(inner, json.subarray(valueStart, end), levels - 1);
    };
    eachMember(json, keep, Number.POSITIVE_INFINITY);
  }
}

/** Runs `keep`, which may fail on JSON nested deeper than the scan follows: that JSON is written anew. */
function keeping(keep: () => void): void {
  try {
    keep();
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
  }
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/**
 * The text that stands in for kept JSON. It is drawn once per process and never leaves it, so no caller can guess it.
 */
let mark: { text: string; place: RegExp } | null = null;

/** Writes a value as `JSON.stringify` does, but uses the kept JSON of the value and of the values within it. */
export function writeJson(value: unknown): string {
  const whole = keptText(value);
  if (whole !== undefined) return whole;
  // The mark is not drawn while the module is loaded: Cloudflare has no random numbers then.
  mark ??= markOf(crypto.randomUUID());
  const { text, place } = mark;
  const kept: string[] = [];
  const json = JSON.stringify(value, (_, inner: unknown) => {
    const json = keptText(inner);
    if (json === undefined) return inner;
    kept.push(json);
    return `${text}${kept.length - 1}`;
  });
  return kept.length === 0 ? json : json.replaceAll(place, (_, index: string) => kept[Number(index)]!);
}

function keptText(value: unknown): string | undefined {
  return isNested(value) ? texts.get(value) : undefined;
}

function markOf(text: string) {
  return { text, place: new RegExp(`"${text}(\\d+)"`, 'g') };
}

/** Writes a value as `writeJson` does, but on one line: the JSON that an engine gave may have several. */
export function writeJsonLine(value: unknown): string {
  return writeJson(value).replaceAll(/[\r\n]+/g, ' ');
}

/**
 * Matches the numbers NaN and Infinity, which engines in Python write and JSON does not have. No caller's parser would
 * take them, so `engineJson` puts `null` in their place.
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
