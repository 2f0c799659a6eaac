import { JSON_DEPTH, JSON_VALUES } from './bounds.ts';
import { JsonFault, utf8Text } from './bytes.ts';

/**
 * Finds in the bytes of JSON what must be known of it before it is parsed, and where its members stand. A parser makes
 * objects of all of it, and spends seconds on millions of small ones while everybody else waits; and JSON that is
 * parsed and written again is another text, with rounded numbers and keys in another order (json-edit.ts changes
 * members in the text). The scan does not check what it does not look at.
 */

const decoder = new TextDecoder();

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** The texts, keys of objects, objects and arrays that were passed; a parser spends its time on them. */
interface Passed {
  values: number;
  most: number;
}

/**
 * Refuses JSON that would keep a parser busy. JSON that passes may still be wrong, but parsing it takes no longer than
 * its length suggests.
 * @param json in UTF-8
 * @param most texts, keys, objects and arrays that it may have
 * @returns how many it has
 * @throws JsonFault for more of them, or more than bounds.JSON_DEPTH levels
 */
export function checkJson(json: Uint8Array, most = JSON_VALUES): number {
  const passed = { values: 0, most };
  skipValue(json, skipBlanks(json, 0), 0, passed);
  return passed.values;
}

/** A member of an object: where its name and its value stand in the JSON. */
export interface JsonMember {
  name: string;
  /** Offset of the name's opening quote. */
  start: number;
  valueStart: number;
  end: number;
}

/**
 * Returns the members of the outermost object in their order, also all of those that share a name: the last of them
 * counts, as for parsers.
 * @throws JsonFault as `checkJson`, and where it is no object
 */
export function membersOf(json: Uint8Array, most = JSON_VALUES): JsonMember[] {
  const members: JsonMember[] = [];
  eachPlace(json, most, (start, nameEnd, valueStart, end) =>
    members.push({ name: nameIn(json.subarray(start, nameEnd)), start, valueStart, end }),
  );
  return members;
}

/** Hands on the name of each member and where its value stands, without an object for it. @throws as `membersOf` */
export function eachMember(
  json: Uint8Array,
  take: (name: string, valueStart: number, end: number) => void,
  most = JSON_VALUES,
): void {
  eachPlace(json, most, (start, nameEnd, valueStart, end) =>
    take(nameIn(json.subarray(start, nameEnd)), valueStart, end),
  );
}

/**
 * Returns the bytes of the values of some fields of an object, as views of it. Of a field that comes twice, the last
 * counts, as for parsers.
 * @throws JsonFault as `checkJson`, and where it is no object
 */
export function jsonFields<Name extends string>(
  json: Uint8Array,
  names: readonly Name[],
  most = JSON_VALUES,
): Partial<Record<Name, Uint8Array>> {
  const found: Partial<Record<Name, Uint8Array>> = {};
  eachPlace(json, most, (start, nameEnd, valueStart, end) => {
    const name = oneOf(names, json, start, nameEnd);
    if (name !== undefined) found[name] = json.subarray(valueStart, end);
  });
  return found;
}

/**
 * Returns where the last member of an object ends; null: the object is empty, or a member may have one of these names.
 * @throws JsonFault as `checkJson`, and where it is no object
 */
export function endWithout(json: Uint8Array, names: readonly string[]): number | null {
  let last: number | null = null;
  let isFound = false;
  eachPlace(json, Number.POSITIVE_INFINITY, (start, nameEnd, _valueStart, end) => {
    last = end;
    isFound ||= mayBeOneOf(names, json, start, nameEnd);
  });
  return isFound ? null : last;
}

/** Says whether a key may be one of the names: one with escapes, or beyond ASCII, may be any. */
function mayBeOneOf(names: readonly string[], json: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = json[at]!;
    if (byte === BACKSLASH || byte > 0x7f) return true;
  }
  return names.some((name) => isWrittenAt(name, json, start + 1, end - 1));
}

/** Returns which of the names a key is, if any; of a key without escapes no text is made. */
function oneOf<Name extends string>(
  names: readonly Name[],
  json: Uint8Array,
  start: number,
  end: number,
): Name | undefined {
  const plain = names.find((name) => isWrittenAt(name, json, start + 1, end - 1));
  if (plain !== undefined) return plain;
  // An escape takes at most six bytes for one character.
  if (end - start > 6 * LONGEST_NAME + 2) return undefined;
  const key = json.subarray(start, end);
  if (!key.includes(BACKSLASH)) return undefined;
  const written = nameIn(key);
  return names.find((name) => name === written);
}

/** A length beyond any name that is asked for. */
const LONGEST_NAME = 64;

/** @param name of ASCII alone */
function isWrittenAt(name: string, json: Uint8Array, start: number, end: number): boolean {
  if (end - start !== name.length) return false;
  for (let n = 0; n < name.length; n++) if (json[start + n] !== name.charCodeAt(n)) return false;
  return true;
}

/**
 * Hands on where each member stands; blanks around the object are no part of it. A generator would make two objects a
 * member, most of what a scan allocates.
 */
function eachPlace(
  json: Uint8Array,
  most: number,
  take: (start: number, nameEnd: number, valueStart: number, end: number) => void,
): void {
  const passed = { values: 0, most };
  let at = skipBlanks(json, 0);
  if (json[at] !== OPEN_BRACE) throw new JsonFault('invalid_json', 'The body must be a JSON object.');
  at = skipBlanks(json, at + 1);
  if (json[at] !== CLOSE_BRACE) {
    for (;;) {
      const start = at;
      const nameEnd = skipString(json, start, passed);
      at = skipBlanks(json, nameEnd);
      if (json[at] !== COLON) throw notJson();
      const valueStart = skipBlanks(json, at + 1);
      const end = skipValue(json, valueStart, 1, passed);
      if (end === valueStart) throw notJson();
      take(start, nameEnd, valueStart, end);
      at = skipBlanks(json, end);
      if (json[at] === CLOSE_BRACE) break;
      if (json[at] !== COMMA) throw notJson();
      at = skipBlanks(json, at + 1);
    }
  }
  if (skipBlanks(json, at + 1) < json.byteLength) throw notJson();
}

/** Returns a key as a parser reads it, written out or with escapes. */
function nameIn(key: Uint8Array): string {
  const text = decoder.decode(key);
  return text.includes('\\') ? String(parseJsonBytes(key)) : text.slice(1, -1);
}

/** Returns views of the elements of an array. @throws JsonFault as `checkJson`, and where it is no array */
export function elementsOf(json: Uint8Array, most = JSON_VALUES): Uint8Array[] {
  const passed = { values: 0, most };
  const elements: Uint8Array[] = [];
  let at = skipBlanks(json, 0);
  if (json[at] !== OPEN_BRACKET) throw notJson();
  at = skipBlanks(json, at + 1);
  if (json[at] !== CLOSE_BRACKET) {
    for (;;) {
      const end = skipValue(json, at, 1, passed);
      if (end === at) throw notJson();
      elements.push(json.subarray(at, end));
      at = skipBlanks(json, end);
      if (json[at] === CLOSE_BRACKET) break;
      if (json[at] !== COMMA) throw notJson();
      at = skipBlanks(json, at + 1);
    }
  }
  if (skipBlanks(json, at + 1) < json.byteLength) throw notJson();
  return elements;
}

/**
 * Skips the value that begins here.
 * @param around how many levels it is nested in
 * @returns where the value ends; the same place where none begins
 */
function skipValue(bytes: Uint8Array, start: number, around: number, passed: Passed): number {
  const first = bytes[start];
  if (first === QUOTE) return skipString(bytes, start, passed);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return skipNested(bytes, start, around, passed);
  let at = start;
  while (at < bytes.byteLength && !endsScalar(bytes[at] as number)) at += 1;
  return at;
}

function endsScalar(byte: number): boolean {
  return byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || isBlank(byte);
}

/** Skips an object or an array, without checking which bracket closes which. */
function skipNested(bytes: Uint8Array, start: number, around: number, passed: Passed): number {
  let depth = around;
  for (let at = start; at < bytes.byteLength; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) {
      at = skipString(bytes, at, passed) - 1;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth += 1;
      pass(passed);
      if (depth > JSON_DEPTH)
        throw new JsonFault('nested_too_deep', `The body is nested deeper than ${JSON_DEPTH} levels.`);
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth -= 1;
      if (depth === around) return at + 1;
    }
  }
  throw notJson();
}

function pass(passed: Passed): void {
  passed.values += 1;
  if (passed.values <= passed.most) return;
  const message = `The body has more than ${passed.most} texts, keys, objects and arrays: send it in parts.`;
  throw new JsonFault('too_many_values', message);
}

/** Finds the next place of a byte. Node's search is ten times as fast as that of the language. */
const indexOf: (bytes: Uint8Array, byte: number, from: number) => number =
  typeof Buffer === 'undefined'
    ? (bytes, byte, from) => bytes.indexOf(byte, from)
    : (bytes, byte, from) => Buffer.prototype.indexOf.call(bytes, byte, from);

/** The first bytes of a text are looked at here: most texts end within them, before a native search has begun. */
const SHORT_TEXT = 32;

function skipString(bytes: Uint8Array, start: number, passed: Passed): number {
  if (bytes[start] !== QUOTE) throw notJson();
  pass(passed);
  let at = start + 1;
  for (const most = Math.min(bytes.byteLength, start + SHORT_TEXT); at < most; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH) at += 1;
  }
  // An escape may have begun with the last of the bytes above, and its second byte ends nothing.
  for (;;) {
    const end = indexOf(bytes, QUOTE, at);
    if (end < 0) throw notJson();
    let before = end - 1;
    while (before >= at && bytes[before] === BACKSLASH) before -= 1;
    at = end + 1;
    // An even number of backslashes escape each other.
    if ((end - 1 - before) % 2 === 0) return at;
  }
}

function skipBlanks(bytes: Uint8Array, start: number): number {
  let at = start;
  while (at < bytes.byteLength && isBlank(bytes[at] as number)) at += 1;
  return at;
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/**
 * Parses JSON, or a part of it that a scan found without looking into it.
 * @throws JsonFault
 */
export function parseJsonBytes(json: Uint8Array): unknown {
  const text = utf8Text(json);
  try {
    return JSON.parse(text);
  } catch {
    throw notJson();
  }
}

/** Says whether the JSON begins as an object does. */
export function beginsObject(json: Uint8Array | undefined): json is Uint8Array {
  return json !== undefined && json[skipBlanks(json, 0)] === OPEN_BRACE;
}

/** Returns the first element of an array; null: the JSON is no array, or an empty one. @throws JsonFault */
export function firstElement(json: Uint8Array): Uint8Array | null {
  if (json[0] !== OPEN_BRACKET) return null;
  const start = skipBlanks(json, 1);
  const end = skipValue(json, start, 1, { values: 0, most: JSON_VALUES });
  return end === start ? null : json.subarray(start, end);
}

function notJson(): JsonFault {
  return new JsonFault('invalid_json', 'The body is not valid JSON.');
}
