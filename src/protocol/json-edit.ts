import { joinBytes } from './bytes.ts';
import { beginsObject, endWithout, membersOf } from './json-text.ts';

/**
 * Adds, replaces and removes members of JSON in its text. Every other byte stays as it was: parsing and writing again
 * would round numbers over 2^53, reorder keys that look like numbers, and write other texts than the caller.
 */

/** JSON in UTF-8, or as a text. */
export type Json = string | Uint8Array;

/** The JSON of new values by the names of their members; undefined removes the member. */
export type JsonEdits = Readonly<Record<string, Json | undefined>>;

type Path = readonly [string, ...string[]];

const COMMA = new Uint8Array([0x2c]);
const NOTHING = new Uint8Array();
const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true });

/**
 * Changes members of an object. An existing member keeps its place. Of a member that occurs twice, the last stays in
 * its place, since parsers use that one; the earlier ones are removed, for parsers that refuse such objects. New
 * members follow in their order.
 * @param json of an object, without a byte order mark
 * @returns a text for a text, and for bytes, also a Buffer, a plain Uint8Array, which `String` does not decode
 * @throws JsonFault where `json` is no object
 */
export function withMembers(json: string, edits: JsonEdits): string;
export function withMembers(json: Uint8Array, edits: JsonEdits): Uint8Array;
export function withMembers(json: Json, edits: JsonEdits): Json;
export function withMembers(json: Json, edits: JsonEdits): Json {
  if (typeof json === 'string') return decoder.decode(edited(encoder.encode(json), edits));
  return edited(json, edits);
}

/**
 * Changes one member as `withMembers` does, also within inner objects, and makes the objects on the way that are
 * missing.
 * @param path names of members, from the outermost
 * @throws JsonFault where `json` is no object
 */
export function withMemberAt(json: string, path: Path, value: Json | undefined): string;
export function withMemberAt(json: Uint8Array, path: Path, value: Json | undefined): Uint8Array;
export function withMemberAt(json: Json, path: Path, value: Json | undefined): Json;
export function withMemberAt(json: Json, path: Path, value: Json | undefined): Json {
  const [name, ...rest] = path;
  if (rest.length === 0) return withMembers(json, { [name]: value });
  const bytes = bytesIn(json);
  const within = lastOf(bytes, name);
  const isThere = within !== undefined && beginsObject(within);
  if (!isThere && value === undefined) return json;
  const inner: Json = isThere ? within : '{}';
  return withMembers(json, { [name]: withMemberAt(inner, rest as unknown as Path, value) });
}

function lastOf(json: Uint8Array, wanted: string): Uint8Array | undefined {
  const found = membersOf(json, Number.POSITIVE_INFINITY).findLast(({ name }) => name === wanted);
  return found && json.subarray(found.valueStart, found.end);
}

function edited(json: Uint8Array, edits: JsonEdits): Uint8Array<ArrayBuffer> {
  const end = endWithout(json, Object.keys(edits));
  // Most edits only add members: then no object is made for each member that is there.
  if (end !== null) return joinBytes([json.subarray(0, end), ...added(edits), json.subarray(end)]);
  return changed(json, edits);
}

/** Returns the JSON of new members, each behind a comma. */
function added(edits: JsonEdits): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (const [name, value] of Object.entries(edits))
    if (value !== undefined) pieces.push(encoder.encode(`,${JSON.stringify(name)}:`), bytesIn(value));
  return pieces;
}

function changed(json: Uint8Array, edits: JsonEdits): Uint8Array<ArrayBuffer> {
  const members = membersOf(json, Number.POSITIVE_INFINITY);
  const last = new Map(members.map(({ name }, index) => [name, index]));
  const pieces: Uint8Array[] = [];
  // The bytes before the first member stay in front, whichever member becomes the first.
  const opened = members[0]?.start ?? json.indexOf(0x7b) + 1;
  pieces.push(json.subarray(0, opened));
  let isFirst = true;
  let before = opened;
  for (const [index, { name, start, valueStart, end }] of members.entries()) {
    const isEdited = Object.hasOwn(edits, name);
    if (!isEdited || (edits[name] !== undefined && last.get(name) === index)) {
      if (!isFirst) pieces.push(index === 0 ? COMMA : json.subarray(before, start));
      isFirst = false;
      if (isEdited) pieces.push(json.subarray(start, valueStart), bytesIn(edits[name]!));
      else pieces.push(json.subarray(start, end));
    }
    before = end;
  }
  for (const [name, value] of Object.entries(edits)) {
    if (value === undefined || last.has(name)) continue;
    pieces.push(isFirst ? NOTHING : COMMA, encoder.encode(`${JSON.stringify(name)}:`), bytesIn(value));
    isFirst = false;
  }
  pieces.push(json.subarray(before));
  return joinBytes(pieces);
}

function bytesIn(json: Json): Uint8Array {
  return typeof json === 'string' ? encoder.encode(json) : json;
}

/** Changes JSON outside of its strings. A single pattern that matched the strings would overflow on long ones. */
export function outsideStrings(json: string, change: (text: string) => string): string {
  const pieces: string[] = [];
  for (let at = 0; ; ) {
    const quote = json.indexOf('"', at);
    pieces.push(change(quote < 0 ? json.slice(at) : json.slice(at, quote)));
    if (quote < 0) return pieces.join('');
    at = endOfString(json, quote);
    pieces.push(json.slice(quote, at));
  }
}

function endOfString(json: string, start: number): number {
  for (let end = json.indexOf('"', start + 1); end >= 0; end = json.indexOf('"', end + 1)) {
    let before = end - 1;
    while (json[before] === '\\') before -= 1;
    // An even number of backslashes escape each other, and not the quote.
    if ((end - 1 - before) % 2 === 0) return end + 1;
  }
  return json.length;
}
