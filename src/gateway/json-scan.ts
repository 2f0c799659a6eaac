import {
  beginsObject,
  checkJson,
  fieldsOf,
  JsonFault,
  jsonFields,
  parseJsonBytes,
} from '../protocol/index.ts';
import { COST_FIELDS, type CostFields } from './cost.ts';
import { HttpError } from './errors.ts';
import { PREFIX_FIELDS, type PrefixFields } from './prompt-prefix.ts';

/**
 * What the gateway must know of a JSON body, found in its bytes without parsing it. The engine rejects malformed parts
 * that the scan does not look at.
 */

/** Names of models are shorter. They appear in errors and logs. */
const MODEL_BYTES = 4096;

const REQUEST_ID_BYTES = 256;

/** No number that a caller means is longer. */
const PRIORITY_BYTES = 64;

const decoder = new TextDecoder();

const QUOTE = 0x22;

/** What the gateway needs to know of a body that it passes on as it came. */
export interface RequestFacts {
  model: string | null;
  stream: boolean;
  includeUsage: boolean;
}

/** What a request for a response (`/v1/responses`) says about responses that the engine keeps. */
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
  /** OpenAI's `service_tier`; null: it names none. */
  tier: string | null;
  /** Where the model stands: a view of the body. */
  modelValue: Uint8Array | undefined;
  /** Embeddings are asked for as bytes (`encoding_format` of vLLM). */
  mayBeBytes: boolean;
  /** What its prompt is made of: views of the body. */
  prompt: PrefixFields;
  /** What bounds its answer: views of the body. */
  cost: CostFields;
}

/** Fields by which engines hand caches to each other. */
const TRANSFER_PARAMS = ['kv_transfer_params', 'ec_transfer_params'] as const;

const TRANSFER_PARAMS_REFUSED = 'transfer_params_refused';

/** Whether the gateway refuses a body for what its scan found; other faults the engine reports. */
export function isRefused(error: unknown): error is HttpError {
  const codes = [TRANSFER_PARAMS_REFUSED, 'nested_too_deep', 'too_many_values'];
  return error instanceof HttpError && codes.includes(error.code ?? '');
}

const SCANNED = [
  'model',
  'stream',
  'stream_options',
  'request_id',
  'priority',
  'service_tier',
  'encoding_format',
  'previous_response_id',
  'store',
  ...TRANSFER_PARAMS,
  'vllm_xargs',
  'sampling_params',
  ...PREFIX_FIELDS,
  ...COST_FIELDS,
] as const;

/**
 * @param body JSON in UTF-8
 * @throws HttpError 400 when it is not a JSON object, is nested too deep or has too many values, its model is not text, or it has parameters
 *   that are the engines' own
 */
export function scanBody(body: Uint8Array): BodyScan {
  const fields = topLevel(body, SCANNED);
  rejectTransferParams(new Map(Object.entries(fields)));
  const options = fields.stream_options;
  const includeUsage = beginsObject(options) && isTrue(topLevel(options, ['include_usage']).include_usage);
  const facts = { model: modelOf(fields.model), stream: isTrue(fields.stream), includeUsage };
  const mayBeBytes = /^"bytes/.test(decoder.decode(fields.encoding_format?.subarray(0, 8)));
  const response = { previousId: idOf(fields.previous_response_id), isKept: !isFalse(fields.store) };
  const priority = priorityOf(fields.priority);
  return {
    facts,
    requestId: idOf(fields.request_id),
    priority,
    tier: idOf(fields.service_tier),
    response,
    modelValue: fields.model,
    mayBeBytes,
    prompt: fields,
    cost: fields,
  };
}

/** @throws HttpError 400, as `scanBody` */
export function readFacts(body: Uint8Array): RequestFacts {
  return scanBody(body).facts;
}

/**
 * A value that a caller made up ends an engine with a connector for everybody; a stale one may give another prompt's
 * answer. vLLM takes them in the body, and from there by way of `vllm_xargs` or `sampling_params.extra_args`.
 * @returns what is wrong; null: nothing
 */
export function transferParamsProblem(fields: Record<string, unknown>): string | null {
  for (const place of [fields, fields.vllm_xargs, fieldsOf(fields.sampling_params).extra_args]) {
    const found = TRANSFER_PARAMS.find((name) => (fieldsOf(place)[name] ?? null) !== null);
    if (found !== undefined) {
      return `${found} is for engines that hand caches to each other, and is not accepted from callers: leave it out.`;
    }
  }
  return null;
}

/**
 * The same of a body that is not parsed.
 * @param fields of the body, as JSON
 * @throws HttpError 400
 */
export function rejectTransferParams(fields: ReadonlyMap<string, Uint8Array>): void {
  const { extra_args } = fieldsIn(fields.get('sampling_params'), ['extra_args']);
  const problem = transferParamsProblem({
    ...transferParamsIn(Object.fromEntries(fields)),
    vllm_xargs: transferParamsIn(fieldsIn(fields.get('vllm_xargs'), TRANSFER_PARAMS)),
    sampling_params: { extra_args: transferParamsIn(fieldsIn(extra_args, TRANSFER_PARAMS)) },
  });
  if (problem !== null) throw new HttpError(400, problem, TRANSFER_PARAMS_REFUSED);
}

function fieldsIn<Name extends string>(value: Uint8Array | undefined, names: readonly Name[]) {
  return beginsObject(value) ? topLevel(value, names) : ({} as Partial<Record<Name, Uint8Array>>);
}

/** Those that are there and not null. */
function transferParamsIn(fields: Partial<Record<string, Uint8Array>>): Record<string, unknown> {
  const present = TRANSFER_PARAMS.filter((name) => fields[name] && !isNull(fields[name]));
  return Object.fromEntries(present.map((name) => [name, true]));
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
 * For bodies that are parsed after this.
 * @returns how many texts, keys, objects and arrays it has
 * @throws HttpError 400 for more than limits.JSON_DEPTH levels or limits.JSON_VALUES of them
 */
export function checkBody(body: Uint8Array): number {
  return asHttp(() => checkJson(body));
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

function topLevel<Name extends string>(body: Uint8Array, names: readonly Name[]) {
  return asHttp(() => jsonFields(body, names));
}

function parse(value: Uint8Array): unknown {
  return asHttp(() => parseJsonBytes(value));
}

function asHttp<T>(scan: () => T): T {
  try {
    return scan();
  } catch (error) {
    throw error instanceof JsonFault ? new HttpError(400, error.message, error.code) : error;
  }
}
