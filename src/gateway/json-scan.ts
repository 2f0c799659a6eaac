import { limits } from '../protocol/index.ts';
import { HttpError } from './errors.ts';

/**
 * What the gateway must know of a JSON body, found in its bytes without parsing it: a parser makes objects of all
 * of it, and spends seconds on four million opening brackets while everybody else waits. What the scan does not
 * look at is not checked either; the engine rejects what is malformed there.
 */

/** Names of models are shorter, and stand in errors and logs. */
const MODEL_BYTES = 4096;

const REQUEST_ID_BYTES = 256;

/** No number that a caller means is longer. */
const PRIORITY_BYTES = 64;

const decoder = new TextDecoder();

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** What the gateway needs to know of a body that it passes on as it came. */
export interface RequestFacts {
  model: string | null;
  stream: boolean;
  includeUsage: boolean;
}

/** What a request for a response (`/v1/responses`) says of those that the engine keeps. */
export interface ResponseWishes {
  /** The one that it goes on from. */
  previousId: string | null;
  /** Whether the engine may keep it. */
  isKept: boolean;
}

/** What else the gateway looks for. */
export interface BodyScan {
  facts: RequestFacts;
  /** The body's own `request_id`. */
  requestId: string | null;
  response: ResponseWishes;
  /** The body's own `priority`, for engines that schedule by it; as it is written there, whatever it is. */
  priority: unknown;
  /** Where the model stands: a view of the body. */
  modelValue: Uint8Array | undefined;
  /** Embeddings are asked for as bytes (`encoding_format` of vLLM). */
  mayBeBytes: boolean;
}

/** Fields by which engines hand caches to each other. */
const TRANSFER_PARAMS = ['kv_transfer_params', 'ec_transfer_params'] as const;

/** Code of the error for them. */
export const TRANSFER_PARAMS_REFUSED = 'transfer_params_refused';

const SCANNED = [
  'model',
  'stream',
  'stream_options',
  'request_id',
  'priority',
  'encoding_format',
  'previous_response_id',
  'store',
  ...TRANSFER_PARAMS,
  'vllm_xargs',
  'sampling_params',
] as const;

/**
 * @param body JSON in UTF-8
 * @throws HttpError 400 when it is not a JSON object, is nested too deep, its model is not text, or it has parameters
 *   that are the engines' own
 */
export function scanBody(body: Uint8Array): BodyScan {
  const fields = topLevel(body, SCANNED);
  rejectTransferParams(new Map(Object.entries(fields)));
  const options = fields.stream_options;
  const includeUsage =
    options?.[0] === OPEN_BRACE && isTrue(topLevel(options, ['include_usage']).include_usage);
  const facts = { model: modelOf(fields.model), stream: isTrue(fields.stream), includeUsage };
  const mayBeBytes = /^"bytes/.test(decoder.decode(fields.encoding_format?.subarray(0, 8)));
  const response = { previousId: idOf(fields.previous_response_id), isKept: !isFalse(fields.store) };
  const priority = priorityOf(fields.priority);
  return {
    facts,
    requestId: idOf(fields.request_id),
    priority,
    response,
    modelValue: fields.model,
    mayBeBytes,
  };
}

/** @throws HttpError 400, as `scanBody` */
export function readFacts(body: Uint8Array): RequestFacts {
  return scanBody(body).facts;
}

/**
 * A value made up by a caller ends an engine with a connector for everybody, a stale one may give another prompt's
 * answer. vLLM takes them in the body, and from there by way of `vllm_xargs` or `sampling_params.extra_args`.
 * @param fields of a body, as JSON
 * @throws HttpError 400
 */
export function rejectTransferParams(fields: ReadonlyMap<string, Uint8Array>): void {
  for (const name of TRANSFER_PARAMS) {
    const value = fields.get(name);
    if (value !== undefined && !isNull(value)) throw transferParams(name);
  }
  const sampling = fields.get('sampling_params');
  const extra = isObject(sampling) ? topLevel(sampling, ['extra_args']).extra_args : undefined;
  for (const inner of [fields.get('vllm_xargs'), extra]) {
    if (isObject(inner)) rejectTransferParams(new Map(Object.entries(topLevel(inner, TRANSFER_PARAMS))));
  }
}

/** The same of fields that are parsed. @returns what is wrong; null: nothing */
export function transferParamsProblem(fields: Record<string, unknown>): string | null {
  for (const place of [fields, fields.vllm_xargs, fieldsOf(fields.sampling_params)?.extra_args]) {
    const found = TRANSFER_PARAMS.find((name) => (fieldsOf(place)?.[name] ?? null) !== null);
    if (found !== undefined) return notAccepted(found);
  }
  return null;
}

function fieldsOf(value: unknown): Record<string, unknown> | null {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : null;
}

function transferParams(name: string): HttpError {
  return new HttpError(400, notAccepted(name), TRANSFER_PARAMS_REFUSED);
}

function notAccepted(name: string): string {
  return `${name} is for engines that hand caches to each other, and is not accepted from callers: leave it out.`;
}

function isObject(value: Uint8Array | undefined): value is Uint8Array {
  return value !== undefined && value[skipBlanks(value, 0)] === OPEN_BRACE;
}

function isNull(value: Uint8Array): boolean {
  return value.byteLength === 4 && parse(value) === null;
}

function isFalse(value: Uint8Array | undefined): boolean {
  return value?.byteLength === 5 && parse(value) === false;
}

function priorityOf(value: Uint8Array | undefined): unknown {
  if (value === undefined) return null;
  return value.byteLength > PRIORITY_BYTES ? Number.NEGATIVE_INFINITY : parse(value);
}

function idOf(value: Uint8Array | undefined): string | null {
  if (value === undefined || value.byteLength > REQUEST_ID_BYTES || value[0] !== QUOTE) return null;
  return parse(value) as string;
}

/**
 * For bodies that are parsed after this: whatever else is wrong with them, parsing takes no longer than their length.
 * @throws HttpError 400 for nesting over limits.JSON_DEPTH
 */
export function checkDepth(body: Uint8Array): void {
  skipValue(body, skipBlanks(body, 0), 0);
}

function modelOf(value: Uint8Array | undefined): string | null {
  if (value === undefined) return null;
  if (value.byteLength > MODEL_BYTES) {
    throw new HttpError(400, `model: expected at most ${MODEL_BYTES} bytes.`, 'invalid_model');
  }
  const model = parse(value);
  if (model === null || typeof model === 'string') return model || null;
  throw new HttpError(400, 'model: expected a string.', 'invalid_model');
}

function isTrue(value: Uint8Array | undefined): boolean {
  return value?.byteLength === 4 && parse(value) === true;
}

function parse(value: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(value));
  } catch {
    throw notJson();
  }
}

/** The bytes of the values of some fields of an object; of a field that comes twice, the last, as parsers do. */
function topLevel<Name extends string>(
  bytes: Uint8Array,
  names: readonly Name[],
): Partial<Record<Name, Uint8Array>> {
  const found: Partial<Record<Name, Uint8Array>> = {};
  let at = skipBlanks(bytes, 0);
  if (bytes[at] !== OPEN_BRACE) throw new HttpError(400, 'The body must be a JSON object.', 'invalid_json');
  at = skipBlanks(bytes, at + 1);
  if (bytes[at] !== CLOSE_BRACE) {
    for (;;) {
      const keyEnd = skipString(bytes, at);
      const name = nameOf(bytes.subarray(at, keyEnd), names);
      at = skipBlanks(bytes, keyEnd);
      if (bytes[at] !== COLON) throw notJson();
      const start = skipBlanks(bytes, at + 1);
      const end = skipValue(bytes, start, 1);
      if (end === start) throw notJson();
      if (name !== undefined) found[name] = bytes.subarray(start, end);
      at = skipBlanks(bytes, end);
      if (bytes[at] === CLOSE_BRACE) break;
      if (bytes[at] !== COMMA) throw notJson();
      at = skipBlanks(bytes, at + 1);
    }
  }
  if (skipBlanks(bytes, at + 1) < bytes.byteLength) throw notJson();
  return found;
}

/** Which of the names a key is, written out or with escapes. */
function nameOf<Name extends string>(key: Uint8Array, names: readonly Name[]): Name | undefined {
  // An escape takes at most six bytes for one character.
  const longest = 6 * Math.max(...names.map((name) => name.length)) + 2;
  if (key.byteLength > longest) return undefined;
  const text = decoder.decode(key);
  return names.find((name) => text === `"${name}"` || (text.includes('\\') && parse(key) === name));
}

/**
 * @param around how many levels it is nested in
 * @returns where the value ends that begins here; the same place where none begins
 */
function skipValue(bytes: Uint8Array, start: number, around: number): number {
  const first = bytes[start];
  if (first === QUOTE) return skipString(bytes, start);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return skipNested(bytes, start, around);
  let at = start;
  while (at < bytes.byteLength && !endsScalar(bytes[at] as number)) at += 1;
  return at;
}

function endsScalar(byte: number): boolean {
  return byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || isBlank(byte);
}

/** Which bracket closes which is not looked at. */
function skipNested(bytes: Uint8Array, start: number, around: number): number {
  let depth = around;
  for (let at = start; at < bytes.byteLength; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) {
      at = skipString(bytes, at) - 1;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth += 1;
      if (depth > limits.JSON_DEPTH) {
        throw new HttpError(
          400,
          `The body is nested deeper than ${limits.JSON_DEPTH} levels.`,
          'nested_too_deep',
        );
      }
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth -= 1;
      if (depth === around) return at + 1;
    }
  }
  throw notJson();
}

function skipString(bytes: Uint8Array, start: number): number {
  if (bytes[start] !== QUOTE) throw notJson();
  let end = start;
  for (;;) {
    end = bytes.indexOf(QUOTE, end + 1);
    if (end < 0) throw notJson();
    let before = end - 1;
    while (bytes[before] === BACKSLASH) before -= 1;
    // An even number of backslashes escape each other.
    if ((end - 1 - before) % 2 === 0) return end + 1;
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

function notJson(): HttpError {
  return new HttpError(400, 'The body is not valid JSON.', 'invalid_json');
}
