import { engineJson, isObject } from '../protocol/index.ts';

/** JSON need not escape U+2028 and U+2029, and vLLM does not: for a `.` they would end the line. */
const DATA = /^data: ?(\{[^\r\n]*\})\r?$/m;

/** Returns the object that the data of an event stands for, or an empty one where it stands for none. */
export function objectIn(json: string): Record<string, unknown> {
  const value = engineJson(json)?.value;
  return isObject(value) ? value : {};
}

/** The text of the object in an event, or in the first of several that has one; null: there is none. */
export function jsonIn(events: string): string | null {
  return DATA.exec(events)?.[1] ?? null;
}
