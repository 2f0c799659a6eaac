import { freeBytes } from '../durable/free-bytes.ts';
import { beginsObject, JsonFault, jsonFields, parseJsonBytes } from '../protocol/index.ts';
import { bytesOf } from '../queue/rpc.ts';

/**
 * What a request may cost in tokens, estimated from its body before it runs: the prompt by its bytes, the answer by the
 * caller's bound. What it did cost is counted when it ends (docs/sharing.md).
 */

export const COST_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n'] as const;
export type CostFields = Partial<Record<(typeof COST_FIELDS)[number], Uint8Array>>;

/** Bytes of JSON that are a token of a prompt, about: English has four characters a token, most others fewer. */
const BYTES_A_TOKEN = 4;
/** Tokens of an answer whose caller sets no bound, where the model's length is not known. */
const UNBOUNDED = 4096;
/** No number that a caller means is longer. */
const NUMBER_BYTES = 32;

/** Routes whose answers are generated token by token. */
const GENERATES =
  /\/(?:chat\/completions(?:\/batch)?|completions|responses|messages|cohere\/v2\/chat|inference\/v1\/generate|invocations)$/;

const QUOTE = 0x22;

/**
 * @param path with or without a query
 * @param bytes of the body; 0 where it is no JSON
 * @param modelLength tokens that prompt and answer may have together; null: it is not known
 */
export function costOf(path: string, bytes: number, fields: CostFields, modelLength: number | null): number {
  const input = Math.min(Math.ceil(bytes / BYTES_A_TOKEN), modelLength ?? Number.POSITIVE_INFINITY);
  if (!GENERATES.test(path.split('?', 1)[0]!)) return input;
  const { max_tokens, max_completion_tokens, max_output_tokens } = fields;
  const wanted = [max_completion_tokens, max_tokens, max_output_tokens].map(numberIn).find(Boolean);
  const room = modelLength === null ? null : Math.max(1, modelLength - input);
  const output = Math.min(wanted ?? room ?? UNBOUNDED, room ?? Number.POSITIVE_INFINITY);
  return input + output * Math.min(numberIn(fields.n) ?? 1, 128);
}

/**
 * The same of a stored job: its payload is a body, or has one as text (`engine_request`) or as a value (RunPod's).
 * @param payload JSON text
 */
export function costOfJob(payload: string, modelLength: number | null): number {
  const bytes = bytesOf(payload);
  try {
    return costIn(bytes, '/v1/chat/completions', modelLength);
  } catch (error) {
    // The engine reports what is wrong with it.
    if (error instanceof JsonFault) return 0;
    throw error;
  } finally {
    freeBytes(bytes);
  }
}

const INNER = ['body', 'openai_input', 'input', 'path', 'route', 'openai_route', 'sampling_params'] as const;

function costIn(json: Uint8Array, outerPath: string, modelLength: number | null): number {
  const fields = jsonFields(json, [...COST_FIELDS, ...INNER]);
  const path = textIn(fields.path) ?? textIn(fields.openai_route) ?? textIn(fields.route) ?? outerPath;
  const body = fields.body?.[0] === QUOTE ? bytesOf(textIn(fields.body) ?? '') : fields.body;
  const inner = [fields.openai_input, body, fields.input].find(beginsObject);
  if (inner) return costIn(inner, path, modelLength);
  const sampling = beginsObject(fields.sampling_params)
    ? jsonFields(fields.sampling_params, COST_FIELDS)
    : {};
  return costOf(path, json.byteLength, { ...fields, ...sampling }, modelLength);
}

function textIn(json: Uint8Array | undefined): string | null {
  return json?.[0] === QUOTE ? String(parseJsonBytes(json)) : null;
}

/** A number of at least 1; undefined: it is none. */
function numberIn(json: Uint8Array | undefined): number | undefined {
  if (json === undefined || json.byteLength > NUMBER_BYTES) return undefined;
  const number = Number(String.fromCharCode(...json));
  return Number.isFinite(number) && number >= 1 ? Math.floor(number) : undefined;
}
