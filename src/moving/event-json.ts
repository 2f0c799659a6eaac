import { engineJson, isObject } from '../protocol/index.ts';

/**
 * Matches the data of an event up to a line end. It does not use `.`, for which U+2028 and U+2029 end a line: JSON need
 * not escape them, and vLLM does not.
 */
const DATA = /^data: ?(\{[^\r\n]*\})\r?$/m;

/** Returns the object that the data of an event stands for, or an empty one where it stands for none. */
export function objectIn(json: string): Record<string, unknown> {
  const value = engineJson(json)?.value;
  return isObject(value) ? value : {};
}

/** Returns the text of the object in an event, or in the first of several events that has one; null if none has. */
export function jsonIn(events: string): string | null {
  return DATA.exec(events)?.[1] ?? null;
}
