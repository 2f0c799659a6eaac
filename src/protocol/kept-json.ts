import { isObject } from './fields.ts';
import { elementsOf, jsonFields } from './json-text.ts';
import { utf8Text } from './utf8.ts';

/**
 * Values that were parsed, with the JSON that they came from: whoever looks into them has the value, whoever writes them
 * has the text. Written anew it would be another one, with numbers over 2^53 rounded and keys such as "10" moved to the
 * front. A kept value is never changed; a copy of it is written as any other value.
 */

const texts = new WeakMap<object, string>();

/** Keeps the JSON of a value. One that is no object or array has no identity, and keeps none. @returns the value */
export function keepJson<T>(value: T, json: string): T {
  if (typeof value === 'object' && value !== null) texts.set(value, json);
  return value;
}

/**
 * Keeps the JSON of some members of an object, or of each object of an array.
 * @param value what `json` stands for
 * @throws JsonFault where it is no JSON
 */
export function keepMembers(value: unknown, json: Uint8Array, names: readonly string[]): void {
  if (Array.isArray(value)) {
    const elements = elementsOf(json, Number.POSITIVE_INFINITY);
    for (const [index, element] of elements.entries()) keepMembers(value[index], element, names);
  } else if (isObject(value)) {
    const members = jsonFields(json, names, Number.POSITIVE_INFINITY);
    for (const [name, member] of Object.entries(members)) keepJson(value[name], utf8Text(member!));
  }
}

/** Keeps the JSON of a job's payload, and of the input in one of RunPod's form. @throws JsonFault */
export function keepPayload(payload: unknown, json: Uint8Array): void {
  keepJson(payload, utf8Text(json));
  keepMembers(payload, json, ['input']);
}

/** The JSON of a value, `JSON.stringify` but for what was kept of it and of the values within. */
export function writeJson(value: unknown): string {
  const kept: string[] = [];
  // A text that no caller can guess stands where kept JSON goes.
  const mark = crypto.randomUUID();
  const json = JSON.stringify(value, (_, inner: unknown) => {
    const text = typeof inner === 'object' && inner !== null ? texts.get(inner) : undefined;
    if (text === undefined) return inner;
    kept.push(text);
    return `${mark}${kept.length - 1}`;
  });
  if (kept.length === 0) return json;
  return json.replaceAll(new RegExp(`"${mark}(\\d+)"`, 'g'), (_, index: string) => kept[Number(index)]!);
}
