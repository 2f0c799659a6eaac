import {
  beginsObject,
  eachMember,
  JsonFault,
  jsonFields,
  parseJsonBytes,
  utf8Problem,
  withoutMark,
} from '../protocol/index.ts';
import { boundaryIn, formFieldsOf } from './form.ts';
import { asRequestFault, isNull, RequestFault, readingJson } from './json.ts';
import {
  LENGTH_FIELDS,
  type LengthFields,
  PROMPT_FIELDS,
  type PromptFields,
  SESSION_FIELDS,
} from './lengths.ts';
import { rejectTransferParams, TRANSFER_NAMES } from './transfer-params.ts';

/**
 * The facts about the body that an engine is sent, read from its very bytes: every decision about a request depends on
 * them, and on nothing that stands beside the body. JSON is not parsed; the engine reports what is wrong with parts
 * that nothing here reads. A body that an engine might read as another one is refused.
 */
export interface BodyFacts {
  /** The form in which engines read the body; `other`: as bytes, such as audio. */
  kind: 'none' | 'json' | 'form' | 'other';
  /** The model that the body names; null: none. */
  model: string | null;
  /** The field by which the body names an adapter beside the model; null: none does. */
  adapterField: string | null;
  /** The JSON of the model, as a view of the body. */
  modelValue: Uint8Array | undefined;
  stream: boolean;
  includeUsage: boolean;
  /** The body's own `request_id`. */
  requestId: string | null;
  /** The body's own `priority`, whatever its value, for engines that schedule by it. */
  priority: unknown;
  /** OpenAI's `service_tier`; null: the body names none. */
  tier: string | null;
  /** The id of the stored response that the request goes on from. */
  previousId: string | null;
  /** True if embeddings are requested as bytes (`encoding_format` of vLLM). */
  mayBeBytes: boolean;
  /** The fields that make up the prompt and bound the answer, as views of the body; empty if the body is no JSON. */
  fields: PromptFields & LengthFields;
  /** The length of the JSON, bytes; 0: the body is no JSON. */
  jsonBytes: number;
}

/** The facts that matter until the answer ends; they hold no views of the body. */
export type RequestFacts = Pick<BodyFacts, 'model' | 'stream' | 'includeUsage'>;

const NOTHING: BodyFacts = {
  kind: 'none',
  model: null,
  adapterField: null,
  modelValue: undefined,
  stream: false,
  includeUsage: false,
  requestId: null,
  priority: null,
  tier: null,
  previousId: null,
  mayBeBytes: false,
  fields: {},
  jsonBytes: 0,
};

/** The longest name of a model that is accepted: real names are shorter, and they appear in errors and logs. */
const MODEL_BYTES = 4096;
const ID_BYTES = 256;
/** The longest `priority` that is read: no number that a caller means is longer. */
const PRIORITY_BYTES = 64;

/**
 * The fields by which a body names an adapter to answer in place of the model: in SGLang, in TensorRT-LLM, in llama.cpp
 * and vLLM-Omni, and in LoRAX.
 */
const ADAPTER_FIELDS = ['lora_path', 'lora_request', 'lora', 'adapter_id'] as const;

const JUDGED = ['model', ...ADAPTER_FIELDS, 'stream', 'request_id', 'priority', ...TRANSFER_NAMES] as const;

const READ = [
  ...JUDGED,
  'stream_options',
  'service_tier',
  'encoding_format',
  'previous_response_id',
  ...PROMPT_FIELDS,
  ...SESSION_FIELDS,
  ...LENGTH_FIELDS,
] as const;

const NAMES: ReadonlySet<string> = new Set(READ);
/** Decisions about a request depend on these fields, so each may come once and in lower case only. */
const ONE_CASE: ReadonlySet<string> = new Set([...JUDGED, ...LENGTH_FIELDS]);
const LONGEST = Math.max(...[...ONE_CASE].map((name) => name.length));

const [QUOTE, OPEN_BRACE] = [0x22, 0x7b];

const decoder = new TextDecoder();

/**
 * Reads the facts of a body.
 * @param contentType as the engine gets it; null: none, which engines take for JSON
 * @param isOwn whether the worker itself requests the rest of an answer
 * @throws RequestFault for a body that cannot be read, and for one with fields that are the engines' own
 */
export function bodyFacts(body: Uint8Array, contentType: string | null, isOwn = false): BodyFacts {
  if (body.byteLength === 0) return NOTHING;
  const [type = ''] = (contentType ?? '').split(';', 1);
  const kind = kindOf(type.trim().toLowerCase(), body);
  if (kind === 'json') {
    rejectCharset(contentType ?? '');
    return jsonFacts(body, isOwn);
  }
  return kind === 'form' ? formFacts(body, boundaryIn(contentType!)) : { ...NOTHING, kind };
}

function kindOf(type: string, body: Uint8Array): BodyFacts['kind'] {
  if (type === 'application/x-www-form-urlencoded') {
    throw new RequestFault(
      'invalid_content_type',
      `Content-Type: expected JSON or multipart/form-data, not ${type}.`,
    );
  }
  const isObject = mayBeObject(body);
  if (type.startsWith('multipart/')) {
    if (type === 'multipart/form-data' && !isObject) return 'form';
    throw new RequestFault('invalid_content_type', `Content-Type: the body is no form as ${type} says.`);
  }
  // Some engines read JSON whatever its type says.
  return isObject || type === '' || /^(?:text\/plain|.*[/+]json)$/.test(type) ? 'json' : 'other';
}

/**
 * Charsets that write ASCII as ASCII. Some engines decode by the charset, and with these they read every judged field
 * as this file does.
 */
const READ_ALIKE = /^(?:utf-?8|(?:us-)?ascii|iso-8859-\d{1,2}|latin-?1|windows-125\d)$/i;

function rejectCharset(contentType: string): void {
  for (const [, charset = ''] of contentType.matchAll(/;\s*charset\*?\s*=\s*["']?([^"';\s]*)/gi)) {
    if (READ_ALIKE.test(charset)) continue;
    throw new RequestFault(
      'invalid_content_type',
      `Content-Type: expected JSON in UTF-8, not in "${charset}".`,
    );
  }
}

/** Says whether the body begins as an object, after blanks and a byte order mark if it has them. */
function mayBeObject(body: Uint8Array): boolean {
  let at = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 3 : 0;
  while (at < body.byteLength && (body[at] as number) <= 0x20) at += 1;
  return body[at] === OPEN_BRACE;
}

function jsonFacts(body: Uint8Array, isOwn: boolean): BodyFacts {
  const fields = fieldsOf(body);
  rejectTransferParams(fields, isOwn);
  const options = fields.stream_options;
  const usage = beginsObject(options) ? readingJson(() => jsonFields(options, ['include_usage'])) : {};
  return {
    kind: 'json',
    model: modelOf(fields.model),
    adapterField: adapterFieldOf(fields),
    modelValue: fields.model,
    stream: streamOf(fields.stream),
    includeUsage: textOf(usage.include_usage) === 'true',
    requestId: idOf(fields.request_id),
    priority: priorityOf(fields.priority),
    tier: idOf(fields.service_tier),
    previousId: idOf(fields.previous_response_id),
    mayBeBytes: /^"bytes/.test(decoder.decode(fields.encoding_format?.subarray(0, 8))),
    fields,
    jsonBytes: body.byteLength,
  };
}

function formFacts(body: Uint8Array, boundary: string): BodyFacts {
  const fields = formFieldsOf(body, boundary, JUDGED);
  rejectTransferParams(fields);
  const inside = Object.keys(fields).find((name) => /(?:kv|ec)_transfer_params/.test(name));
  if (inside !== undefined) rejectTransferParams({ kv_transfer_params: fields[inside]! });
  const text = (name: (typeof JUDGED)[number]) => decoder.decode(fields[name]) || null;
  return {
    ...NOTHING,
    kind: 'form',
    model: text('model'),
    adapterField: adapterFieldOf(fields),
    modelValue: fields.model,
    stream: formStreamOf(text('stream')),
    requestId: text('request_id'),
    priority: text('priority'),
  };
}

/**
 * Reads the fields of an object in UTF-8 and refuses anything else: other parsers guess the encoding of JSON, and may
 * find an object there.
 */
function fieldsOf(body: Uint8Array): Partial<Record<(typeof READ)[number], Uint8Array>> {
  if (withoutMark(body) !== body) {
    const message = 'The body begins with a byte order mark: send JSON in UTF-8 without one (RFC 8259).';
    throw new RequestFault('invalid_utf8', message);
  }
  const found: Partial<Record<(typeof READ)[number], Uint8Array>> = {};
  try {
    eachMember(body, (name, valueStart, end) => {
      // Of two fields with the same name the last counts, as it does for the parsers of vLLM, llama.cpp and Ollama.
      if (isRead(name)) found[name] = body.subarray(valueStart, end);
      else rejectOtherCase(name);
    });
    return found;
  } catch (error) {
    const problem = error instanceof JsonFault && error.code === 'invalid_json' ? utf8Problem(body) : null;
    if (problem !== null) throw new RequestFault('invalid_utf8', problem);
    throw asRequestFault(error);
  }
}

function isRead(name: string): name is (typeof READ)[number] {
  return NAMES.has(name);
}

/** Refuses a judged field in another case: engines in Go match names in any case, and take the last of two. */
function rejectOtherCase(name: string): void {
  const folded = name.length > LONGEST ? '' : name.toUpperCase().toLowerCase();
  if (!ONE_CASE.has(folded)) return;
  throw new RequestFault(
    'invalid_field',
    `${name}: engines differ in what they make of it; write it as "${folded}".`,
  );
}

function modelOf(value: Uint8Array | undefined): string | null {
  if (value === undefined) return null;
  if (value.byteLength > MODEL_BYTES)
    throw new RequestFault('invalid_model', `model: expected at most ${MODEL_BYTES} bytes.`);
  const model = readingJson(() => parseJsonBytes(value));
  if (model === null || typeof model === 'string') return model || null;
  throw new RequestFault('invalid_model', 'model: expected a string.');
}

function adapterFieldOf(fields: Partial<Record<string, Uint8Array>>): string | null {
  return ADAPTER_FIELDS.find((name) => fields[name] !== undefined && !isNull(fields[name])) ?? null;
}

/** Reads `stream`. Engines differ in what else means true: some stream for 1 or "true", others do not. */
function streamOf(value: Uint8Array | undefined): boolean {
  const text = value === undefined ? 'null' : textOf(value);
  if (text === 'true') return true;
  if (text === 'false' || text === 'null') return false;
  throw new RequestFault('invalid_stream', 'stream: expected true or false.');
}

/** Reads `stream` in a form, where everything is text; these are the words that engines take. */
function formStreamOf(text: string | null): boolean {
  if (text === null || /^(?:false|f|0|off|n|no)$/i.test(text)) return false;
  if (/^(?:true|t|1|on|y|yes)$/i.test(text)) return true;
  throw new RequestFault('invalid_stream', 'stream: expected "true" or "false".');
}

function priorityOf(value: Uint8Array | undefined): unknown {
  if (value === undefined) return null;
  return value.byteLength > PRIORITY_BYTES
    ? Number.NEGATIVE_INFINITY
    : readingJson(() => parseJsonBytes(value));
}

function idOf(value: Uint8Array | undefined): string | null {
  if (value === undefined || value.byteLength > ID_BYTES || value[0] !== QUOTE) return null;
  return readingJson(() => parseJsonBytes(value)) as string;
}

/** Returns the text of a short scalar; empty: there is none, or it is too long. */
function textOf(value: Uint8Array | undefined): string {
  return value === undefined || value.byteLength > ID_BYTES ? '' : decoder.decode(value);
}
