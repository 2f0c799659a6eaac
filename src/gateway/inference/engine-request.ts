import {
  boundaryOf,
  ContentType,
  formFields,
  isRequestId,
  MAX_PATH_CHARACTERS,
  pack,
  replaceBytes,
  requestHeaders,
  withoutMark,
} from '../../protocol/index.ts';
import type { CostFields } from '../cost.ts';
import { HttpError } from '../errors.ts';
import { type RequestFacts, type ResponseWishes, rejectTransferParams, scanBody } from '../json-scan.ts';
import type { ModelAliases } from '../model-aliases.ts';
import type { PrefixFields } from '../prompt-prefix.ts';

/** Content types that clients put on JSON when the caller names none: curl's `-d`, and `fetch` with a text. */
const UNNAMED_TYPES: readonly string[] = ['application/x-www-form-urlencoded', 'text/plain'];

/** Names of models hold none; names that the queue makes up do (`workerAlone`). */
const CONTROL = /\p{Cc}/u;

const NO_WISHES: ResponseWishes = { previousId: null, isKept: true };

/** A caller's request as it goes to an engine. */
export interface EngineCall {
  facts: RequestFacts;
  /** Embeddings are asked for as bytes. */
  mayBeBytes: boolean;
  response: ResponseWishes;
  /** A packed request (protocol/packed-request.ts). */
  payload: Uint8Array<ArrayBuffer>;
  /** What it says of its priority at the engine, in a header and in the body. */
  priorities: unknown[];
  /** OpenAI's `service_tier`; null: it names none. */
  tier: string | null;
  /** What its prompt is made of: views of the body as it came; empty where that is no JSON. */
  prompt: PrefixFields;
  /** What bounds its answer: views of the body as it came; null where that is no JSON. */
  cost: CostFields | null;
  /** What the caller calls its request, in a header or in the body; null: nothing that could go on. */
  requestId: string | null;
}

/** What the gateway knows of a body, in JSON, a form or another type. */
interface Content {
  facts: RequestFacts;
  type: string | null;
  /** The body's own `request_id`. */
  requestId: string | null;
  priority?: unknown;
  tier?: string | null;
  body: Uint8Array;
  mayBeBytes?: boolean;
  prompt?: PrefixFields;
  cost?: CostFields;
  response?: ResponseWishes;
}

/**
 * Reads what the road must know of a request, and packs what its engine gets: method, path, query, the headers of
 * request-headers.ts and the body, byte for byte but for the name of a model that is an alias.
 * @param path with its query
 * @throws HttpError 400, 414
 */
export function engineCall(
  request: Request,
  path: string,
  bytes: Uint8Array,
  aliases: ModelAliases,
): EngineCall {
  if (path.length > MAX_PATH_CHARACTERS) {
    throw new HttpError(
      414,
      `The address is longer than ${MAX_PATH_CHARACTERS} characters.`,
      'path_too_long',
    );
  }
  const content = readContent(request, bytes, aliases);
  const { facts, body, type, mayBeBytes = false, response = NO_WISHES, prompt = {}, cost = null } = content;
  if (CONTROL.test(facts.model ?? '')) {
    throw new HttpError(400, 'model: expected no control characters.', 'invalid_model');
  }
  const headers = requestHeaders(request.headers);
  // vLLM lets the header win over the body's own id.
  const requestId = [headers['x-request-id'], content.requestId ?? undefined].find(isRequestId) ?? null;
  const head = JSON.stringify({
    method: request.method,
    path,
    ...(type === null ? {} : { content_type: type }),
    headers: { ...headers, 'x-request-id': requestId ?? undefined },
  });
  const priorities = [headers['x-vllm-priority'], content.priority];
  const payload = pack(head, body);
  const { tier = null } = content;
  return { facts, mayBeBytes, response, payload, priorities, tier, prompt, cost, requestId };
}

function readContent(request: Request, bytes: Uint8Array, aliases: ModelAliases): Content {
  const given = request.headers.get('content-type');
  const type = given?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const boundary = boundaryOf(given);
  if (boundary !== null) return readForm(bytes, given, boundary, aliases);
  if (bytes.byteLength > 0 && (type === '' || type === 'application/json' || UNNAMED_TYPES.includes(type))) {
    return readJson(withoutMark(bytes), type === 'application/json' ? given : 'application/json', aliases);
  }
  const { searchParams } = new URL(request.url);
  const model = request.headers.get('x-model') ?? searchParams.get('model');
  const facts = {
    model: aliases.resolve(model || null),
    stream: searchParams.get('stream') === 'true',
    includeUsage: false,
  };
  return { facts, type: bytes.byteLength > 0 ? checkedType(given) : null, requestId: null, body: bytes };
}

function readJson(bytes: Uint8Array, type: string | null, aliases: ModelAliases): Content {
  const { facts, modelValue, ...rest } = scanBody(bytes);
  const model = aliases.resolve(facts.model);
  const isAlias = model !== facts.model && modelValue !== undefined;
  const body = isAlias ? replaceBytes(bytes, modelValue, JSON.stringify(model)) : bytes;
  return { ...rest, facts: { ...facts, model }, type: checkedType(type), body };
}

function readForm(bytes: Uint8Array, type: string | null, boundary: string, aliases: ModelAliases): Content {
  const fields = formFields(bytes, boundary);
  rejectTransferParams(fields);
  const text = (name: string) => new TextDecoder().decode(fields.get(name));
  const asked = text('model') || null;
  const model = aliases.resolve(asked);
  const body = model === asked || model === null ? bytes : replaceBytes(bytes, fields.get('model')!, model);
  const facts = { model, stream: text('stream') === 'true', includeUsage: false };
  const [requestId, priority] = [text('request_id') || null, text('priority') || null];
  return { facts, type: checkedType(type), requestId, priority, body };
}

/** @throws HttpError 400 for what no worker would send on */
function checkedType(type: string | null): string | null {
  if (type === null || ContentType.safeParse(type).success) return type;
  throw new HttpError(
    400,
    'Content-Type: expected a type such as "application/json".',
    'invalid_content_type',
  );
}
