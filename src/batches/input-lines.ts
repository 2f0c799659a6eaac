import {
  ANY_ENDPOINT,
  beginsObject,
  checkJson,
  checkUtf8,
  firstElement,
  JsonFault,
  jsonFields,
  parseJsonBytes,
  type RouteList,
  withoutMark,
} from '../protocol/index.ts';
import type { LineFault } from './batch.ts';

const LINE_FEED = 0x0a;

/** A line of a file without its line end, and its position. */
export interface SplitLine {
  /** The line's number, from 1, counting blank lines too. */
  number: number;
  offset: number;
  length: number;
  /** The line as a view of the piece, without a byte order mark. */
  bytes: Uint8Array;
}

/**
 * Splits a piece of a file into its lines, leaving blank ones out. The bytes after the last line end belong to the next
 * piece.
 * @param before the bytes and lines of the file before the piece
 * @param isLast whether the piece ends with the file: then the remainder is a line too
 * @param most the most lines to return; splitting stops at one more
 * @returns `taken`: the bytes that were split; `passed`: the lines, including blank ones
 */
export function splitLines(
  piece: Uint8Array,
  before: { bytes: number; lines: number },
  isLast: boolean,
  most = Number.POSITIVE_INFINITY,
): { lines: SplitLine[]; taken: number; passed: number } {
  const lines: SplitLine[] = [];
  let at = 0;
  let passed = 0;
  while (at < piece.byteLength && lines.length <= most) {
    const found = piece.indexOf(LINE_FEED, at);
    if (found < 0 && !isLast) break;
    const end = found < 0 ? piece.byteLength : found;
    const bytes = withoutMark(piece.subarray(at, end));
    passed += 1;
    if (!bytes.every(isBlank)) {
      lines.push({ number: before.lines + passed, offset: before.bytes + at, length: end - at, bytes });
    }
    at = end + 1;
  }
  return { lines, taken: Math.min(at, piece.byteLength), passed };
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}

/** A valid line of a batch's input. */
export interface Line {
  custom_id: string;
  /** The model that the line names; empty: it names none. */
  model: string;
  /** A number shared by lines whose prompts begin alike: if they run together, they share the engine's cache. */
  prefix: number;
}

const CUSTOM_ID_CHARACTERS = 512;
/**
 * The longest JSON of a custom_id, method or url that is read; longer ones are invalid. A character takes up to six
 * bytes, and quotes two more.
 */
const SHORT_BYTES = 6 * 2048 + 2;
/** Lines of at most this many values are parsed once, so that malformed parts are reported before the batch begins. */
const PARSED_VALUES = 10_000;

/**
 * Reads and checks a line. A line that may have many values is not parsed into objects, since all other work would wait
 * for that.
 * @param bytes the line
 * @param number the line's number, from 1
 * @param endpoint the batch's endpoint
 * @param routes the routes that lines may ask for, if the endpoint allows any of them
 */
export function readLine(
  bytes: Uint8Array,
  number: number,
  endpoint: string,
  routes: RouteList,
): Line | LineFault {
  const fault = (code: string, message: string, param: string | null = null): LineFault => ({
    code,
    message,
    param,
    line: number,
  });
  try {
    checkUtf8(bytes);
    const fields = jsonFields(bytes, ['custom_id', 'method', 'url', 'body']);
    if (checkJson(bytes) <= PARSED_VALUES) parseJsonBytes(bytes);
    const custom_id = shortOf(fields.custom_id);
    if (typeof custom_id !== 'string' || custom_id === '') {
      return fault(
        'missing_required_parameter',
        'custom_id: expected a text that is not empty.',
        'custom_id',
      );
    }
    if (custom_id.length > CUSTOM_ID_CHARACTERS) {
      const message = `custom_id: expected at most ${CUSTOM_ID_CHARACTERS} characters.`;
      return fault('invalid_parameter', message, 'custom_id');
    }
    if (!custom_id.isWellFormed()) {
      // The custom_id would come back changed, since files are UTF-8.
      return fault('invalid_parameter', 'custom_id: half of a surrogate pair stands in it.', 'custom_id');
    }
    if (fields.method !== undefined && shortOf(fields.method) !== 'POST')
      return fault('invalid_parameter', 'method: expected "POST".', 'method');
    const url = shortOf(fields.url);
    if (endpoint === ANY_ENDPOINT) {
      if (typeof url !== 'string' || !routes.has('POST', url))
        return fault('invalid_url', 'url: expected an inference route; docs/http.md lists them.', 'url');
    } else if (url !== endpoint) {
      const message = `url: expected ${endpoint}, the endpoint of the batch. One with the endpoint "${ANY_ENDPOINT}" takes lines for different routes.`;
      return fault('url_mismatch', message, 'url');
    }
    if (!beginsObject(fields.body))
      return fault('missing_required_parameter', 'body: expected a JSON object.', 'body');
    const { stream, model, ...beginnings } = jsonFields(fields.body, IN_BODY);
    if (stream !== undefined && shortOf(stream) === true) {
      return fault('invalid_parameter', 'stream: a line of a batch cannot be streamed.', 'body.stream');
    }
    return { custom_id, model: modelOf(model), prefix: prefixOf(beginnings) };
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    if (error.code !== 'invalid_json')
      return fault('invalid_json_line', error.message.replace('The body', 'This line'));
    return fault('invalid_json_line', 'This line is no JSON object, or not valid JSON.');
  }
}

export function isFault(line: Line | LineFault): line is LineFault {
  return 'code' in line;
}

/** Returns the request of a valid line, its body as it was written. @throws JsonFault */
export function requestOf(line: Uint8Array): { path: string; body: string; model: string | null } {
  const { url, body } = jsonFields(withoutMark(line), ['url', 'body']);
  if (url === undefined || body === undefined) throw new JsonFault('invalid_json', 'The line has no body.');
  const { model } = jsonFields(body, ['model']);
  return {
    path: String(parseJsonBytes(url)),
    body: new TextDecoder().decode(body),
    model: modelOf(model) || null,
  };
}

const IN_BODY = ['stream', 'model', 'messages', 'instructions', 'prompt', 'input'] as const;

/** Returns the value of a short field; undefined for a long one. */
function shortOf(json: Uint8Array | undefined): unknown {
  return json === undefined || json.byteLength > SHORT_BYTES ? undefined : parseJsonBytes(json);
}

/** Returns the model that the JSON names; empty if it is no text. */
function modelOf(json: Uint8Array | undefined): string {
  return json?.[0] === QUOTE ? (parseJsonBytes(json) as string) : '';
}

const QUOTE = 0x22;

/** Hashes the system prompt, or the beginning of a prompt without one. */
function prefixOf({ messages, instructions, prompt, input }: Beginnings): number {
  const first = messages?.[0] === OPEN_BRACKET ? firstElement(messages) : (instructions ?? prompt ?? input);
  return hash(first?.subarray(0, PREFIX_BYTES) ?? new Uint8Array());
}

type Beginnings = Partial<Record<'messages' | 'instructions' | 'prompt' | 'input', Uint8Array>>;

const OPEN_BRACKET = 0x5b;
const PREFIX_BYTES = 20_000;

/** Hashes by FNV-1a, 32 bits. */
function hash(bytes: Uint8Array): number {
  let value = 0x811c9dc5;
  for (const byte of bytes) value = Math.imul(value ^ byte, 0x01000193);
  return value >>> 0;
}
