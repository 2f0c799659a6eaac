import { endOfString } from '../../protocol/index.ts';

/** One member of an object: its key as it is written, quotes included, and where its value stands. */
export interface Member {
  key: string;
  start: number;
  end: number;
}

/**
 * The members of the outermost object, one by one, without parsing it. Strings are skipped by hand: a pattern for a whole
 * one takes more stack than there is when it has many megabytes.
 * @param json of an object; of anything that is not JSON, the members make no sense
 */
export function* membersOf(json: string): Generator<Member> {
  const marks = /["{}[\]:,]/g;
  let depth = 0;
  let key = '';
  let start = -1;
  for (let match = marks.exec(json); match !== null; match = marks.exec(json)) {
    const [mark] = match;
    const at = match.index;
    if (mark === '"') {
      marks.lastIndex = endOfString(json, at);
      if (depth === 1 && start < 0) key = json.slice(at, marks.lastIndex);
    } else if (mark === '{' || mark === '[') depth += 1;
    else if (mark === ':') {
      if (depth === 1 && start < 0) start = at + 1;
    } else {
      if (depth === 1 && start >= 0) yield { key, ...trimmed(json, start, at) };
      if (depth === 1) start = -1;
      if (mark !== ',') depth -= 1;
    }
  }
}

function trimmed(json: string, from: number, to: number): { start: number; end: number } {
  let [start, end] = [from, to];
  while (start < end && isBlank(json[start]!)) start += 1;
  while (end > start && isBlank(json[end - 1]!)) end -= 1;
  return { start, end };
}

function isBlank(character: string): boolean {
  return character === ' ' || character === '\n' || character === '\r' || character === '\t';
}
