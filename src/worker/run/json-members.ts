/** One member of an object: its key as it is written, quotes included, and where its value stands. */
export interface Member {
  key: string;
  start: number;
  end: number;
}

const [QUOTE, COMMA, COLON] = [0x22, 0x2c, 0x3a];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * An object with more members, right before the brace that closes it: of two of one name the last counts, and every
 * other byte is as it was.
 * @param body JSON of an object that has members
 */
export function withMembers(body: string, members: string): string;
export function withMembers(body: string | Uint8Array, members: string): string | Uint8Array;
export function withMembers(body: string | Uint8Array, members: string): string | Uint8Array {
  if (typeof body === 'string') {
    const at = body.lastIndexOf('}');
    return `${body.slice(0, at)},${members}${body.slice(at)}`;
  }
  const at = body.lastIndexOf(CLOSE_BRACE);
  return Buffer.concat([body.subarray(0, at), Buffer.from(`,${members}`), body.subarray(at)]);
}

/**
 * The members of the outermost object, one by one, without parsing it.
 * @param json of an object; of anything that is not JSON, the members make no sense
 */
export function* membersOf(json: string): Generator<Member> {
  let depth = 0;
  let key = '';
  let start = -1;
  for (let at = 0; at < json.length; at += 1) {
    const mark = json.charCodeAt(at);
    if (mark === QUOTE) {
      const end = endOfString(json, at);
      if (depth === 1 && start < 0) key = json.slice(at, end);
      at = end - 1;
    } else if (mark === OPEN_BRACE || mark === OPEN_BRACKET) depth += 1;
    else if (mark === COLON) {
      if (depth === 1 && start < 0) start = at + 1;
    } else if (mark === COMMA || mark === CLOSE_BRACE || mark === CLOSE_BRACKET) {
      if (depth === 1 && start >= 0) yield trimmed(json, key, start, at);
      if (depth === 1) start = -1;
      if (mark !== COMMA) depth -= 1;
    }
  }
}

function trimmed(json: string, key: string, from: number, to: number): Member {
  let [start, end] = [from, to];
  while (start < end && isBlank(json[start]!)) start += 1;
  while (end > start && isBlank(json[end - 1]!)) end -= 1;
  return { key, start, end };
}

function isBlank(character: string): boolean {
  return character === ' ' || character === '\n' || character === '\r' || character === '\t';
}

/** Where the JSON string ends that begins at `start`; the end of the text where it does not. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text[before] === '\\') before -= 1;
    // An even number of backslashes escape each other.
    if ((end - 1 - before) % 2 === 0) return end + 1;
  }
  return text.length;
}
