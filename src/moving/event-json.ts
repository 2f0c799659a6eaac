/** JSON need not escape U+2028 and U+2029, and vLLM does not: for a `.` they would end the line. */
const DATA = /^data: ?(\{[^\r\n]*\})\r?$/m;

/** The text of the object in an event, or in the first of several that has one; null: there is none. */
export function jsonIn(events: string): string | null {
  return DATA.exec(events)?.[1] ?? null;
}
