import {
  ContentType,
  isRequestId,
  MAX_PATH_CHARACTERS,
  pack,
  requestHeaders,
  withoutMark,
} from '../../protocol/index.ts';
import { type BodyFacts, bodyFacts } from '../../request-facts/body-facts.ts';
import { addressOf } from '../address.ts';
import { asHttp } from '../bodies/body.ts';
import type { RequestHead } from '../env.ts';
import { HttpError } from '../errors.ts';

/**
 * The content types that clients put on JSON when the caller names none: those of curl's `-d`, and of `fetch` with a
 * text.
 */
const UNNAMED_TYPES: readonly string[] = ['application/x-www-form-urlencoded', 'text/plain'];

/** Control characters: no model's name has any. */
const CONTROL = /\p{Cc}/u;

/** A caller's request in the form in which an engine gets it. */
export interface EngineCall {
  /** The facts that were read from the body. */
  facts: BodyFacts;
  /** A packed request (protocol/payloads.ts). */
  payload: Uint8Array<ArrayBuffer>;
  /** The priorities that the request asks of the engine, in a header and in the body. */
  priorities: unknown[];
  /** The caller's id for its request, in a header or in the body; null where there is none that could be passed on. */
  requestId: string | null;
}

/** A body in the form that the engine is sent, in JSON, a form or another type. */
interface Content {
  facts: BodyFacts;
  type: string | null;
  body: Uint8Array;
}

/**
 * Reads what the queue must know of a request, and packs what its engine gets: method, path, query, the headers of
 * request-headers.ts, and the body byte for byte.
 * @param path the path with its query
 * @throws HttpError 400, 414
 */
export function engineCall(request: RequestHead, path: string, bytes: Uint8Array): EngineCall {
  if (path.length > MAX_PATH_CHARACTERS) {
    throw new HttpError(
      414,
      `The address is longer than ${MAX_PATH_CHARACTERS} characters.`,
      'path_too_long',
    );
  }
  const { facts, body, type } = readContent(request, bytes);
  if (CONTROL.test(facts.model ?? '')) {
    throw new HttpError(400, 'model: expected no control characters.', 'invalid_model');
  }
  const headers = requestHeaders(request.headers);
  // vLLM prefers the header to the body's own id.
  const requestId = [headers['x-request-id'], facts.requestId ?? undefined].find(isRequestId) ?? null;
  const head = JSON.stringify({
    method: request.method,
    path,
    ...(type === null ? {} : { content_type: type }),
    headers: { ...headers, 'x-request-id': requestId ?? undefined },
  });
  const priorities = [headers['x-vllm-priority'], facts.priority];
  return { facts, payload: pack(head, body), priorities, requestId };
}

function readContent(request: RequestHead, bytes: Uint8Array): Content {
  const given = request.headers.get('content-type');
  const named = given?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const isUnnamed = bytes.byteLength > 0 && (named === '' || UNNAMED_TYPES.includes(named));
  const type = isUnnamed ? 'application/json' : bytes.byteLength > 0 ? checkedType(given) : null;
  const body = isUnnamed || named === 'application/json' ? withoutMark(bytes) : bytes;
  const facts = asHttp(() => bodyFacts(body, type));
  if (facts.kind === 'none' || facts.kind === 'other') {
    const { searchParams } = addressOf(request);
    const model = request.headers.get('x-model') ?? searchParams.get('model');
    const stream = searchParams.get('stream') === 'true';
    return { facts: { ...facts, model: model || null, stream }, type, body };
  }
  return { facts, type, body };
}

/** @throws HttpError 400 for a type that no worker would send on */
function checkedType(type: string | null): string | null {
  if (type === null || ContentType.safeParse(type).success) return type;
  throw new HttpError(
    400,
    'Content-Type: expected a type such as "application/json".',
    'invalid_content_type',
  );
}
