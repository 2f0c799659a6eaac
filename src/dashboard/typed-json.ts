export type TypedJson =
  | { value: unknown }
  /** The fault's text for the person who typed it, and the position of the character after it. */
  | { fault: string; at: number };

/** Parses JSON that somebody typed. */
export function typedJson(text: string): TypedJson {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return syntaxFault(text);
  }
}

const TOKEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: strings of JSON must not hold them
  /\s*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null))/y;

/** The kinds of tokens that may come next, and their names. */
const NAMES = {
  value: 'a value',
  valueOrEnd: 'a value or ]',
  name: 'a name in double quotes',
  nameOrEnd: 'a name in double quotes or }',
  colon: ': after the name',
  commaOrEnd: ', or the closing bracket',
  nothing: 'nothing more',
};

/**
 * Returns the first fault of a text and its position, since browsers report the position of only some errors, each in
 * its own words. @param text text that is not JSON
 */
function syntaxFault(text: string): TypedJson {
  const open: string[] = [];
  let wanted: keyof typeof NAMES = 'value';
  let at = 0;
  for (;;) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text);
    const next: keyof typeof NAMES | null = token === null ? null : nextAfter(token, wanted, open);
    if (next === null) break;
    wanted = next;
    at += token![0].length;
  }
  at += /^\s*/.exec(text.slice(at))![0].length;
  const before = text.slice(0, at).split('\n');
  const place = `line ${before.length}, column ${before.at(-1)!.length + 1}`;
  return { fault: `No valid JSON: ${place} should have ${NAMES[wanted]}, but ${foundAt(text, at)}.`, at };
}

function foundAt(text: string, at: number): string {
  if (at === text.length) return 'the text ends';
  if (text[at] === '"') return 'the string there has no end, a line break, a tab or an unknown escape in it';
  return `"${text[at]}" stands there`;
}

/**
 * Returns the tokens that may come next. @param open the open brackets, changed here @returns null: the token is not
 * allowed there
 */
function nextAfter(
  [, sign, string]: RegExpExecArray,
  wanted: keyof typeof NAMES,
  open: string[],
): keyof typeof NAMES | null {
  const afterValue = () => (open.length > 0 ? 'commaOrEnd' : 'nothing');
  if (wanted === 'colon') return sign === ':' ? 'value' : null;
  if (wanted === 'commaOrEnd' && sign === ',') return open.at(-1) === '{' ? 'name' : 'value';
  if (sign === '}' || sign === ']') {
    const mayEnd = wanted === 'commaOrEnd' || wanted === (sign === '}' ? 'nameOrEnd' : 'valueOrEnd');
    if (!mayEnd || open.at(-1) !== (sign === '}' ? '{' : '[')) return null;
    open.pop();
    return afterValue();
  }
  if (wanted === 'name' || wanted === 'nameOrEnd') return string === undefined ? null : 'colon';
  if (wanted !== 'value' && wanted !== 'valueOrEnd') return null;
  if (sign === undefined) return afterValue();
  if (sign !== '{' && sign !== '[') return null;
  open.push(sign);
  return sign === '{' ? 'nameOrEnd' : 'valueOrEnd';
}
