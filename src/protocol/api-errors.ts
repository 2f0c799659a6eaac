import type { Dialect } from './engine-routes.ts';
import { fieldsOf, jsonOrText } from './fields.ts';

/**
 * Writes errors in the shapes of the APIs that callers speak: as a body, and as the last event of a stream that has
 * begun with status 200. The shapes follow OpenAI's reference (errors; `error` event of Responses) and Anthropic's
 * (errors; `error` event of Messages).
 */

/** `WWW-Authenticate` of every response with the status 401, which has to name a way to do better (RFC 9110 §15.5.2). */
export const CHALLENGE = 'Bearer realm="worker-vllm"';

export interface ApiError {
  /** The HTTP status, even where it is too late to send it. */
  status: number;
  message: string;
  /** The kind of error; left out: the API's name for errors of this status. */
  type?: string | undefined;
  code: string | number | null;
  param?: string | null;
}

/** Makes the error body of the OpenAI API. */
export function openAIError({ status, message, type, param, code }: ApiError): {
  error: { message: string; type: string; param: string | null; code: string | number | null };
} {
  return { error: { message, type: type ?? openAIType(status), param: param ?? null, code } };
}

/** Makes the body of an error response. @param requestId included where the API has a place for it */
export function errorBody(error: ApiError, dialect: Dialect, requestId?: string): object {
  if (dialect === 'runpod') return { error: error.message };
  if (dialect !== 'anthropic') return openAIError(error);
  const { status, message, type } = error;
  return {
    type: 'error',
    error: { type: type ?? ANTHROPIC_TYPES[status] ?? anthropicType(status), message },
    ...(requestId === undefined ? {} : { request_id: requestId }),
  };
}

/** Writes the last events of a stream that ends with an error: clients of each API raise it as they raise a status. */
export function errorEvents(error: ApiError, dialect: Dialect, requestId?: string): string {
  if (dialect === 'anthropic') return errorEvent(errorBody(error, dialect, requestId));
  const { error: shown } = openAIError(error);
  const detailed = { ...shown, status: error.status };
  if (dialect !== 'responses') return `data: ${JSON.stringify({ error: detailed })}\n\ndata: [DONE]\n\n`;
  // The reference has these fields beside `type`, OpenAI's servers put them under `error`, and its clients look there.
  // The sequence number is always 0: no client is known to check it.
  const { message, code, param } = shown;
  return errorEvent({ type: 'error', sequence_number: 0, code, message, param, error: detailed });
}

function errorEvent(data: object): string {
  return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
}

/**
 * Reads the error that an engine answered with, in whichever shape.
 * @param text the engine's body
 */
export function readApiError(status: number, text: string): ApiError {
  // A body of plain text is a message too.
  const body = jsonOrText(text);
  const { error, detail } = fieldsOf(body);
  const { type, code, param } = Object(error ?? detail) as Record<string, unknown>;
  return {
    status,
    message: engineMessage(body) ?? `the engine answered with the status ${status} and said no more`,
    type: typeof type === 'string' ? type : undefined,
    code: typeof code === 'string' || typeof code === 'number' ? code : null,
    param: typeof param === 'string' ? param : null,
  };
}

/**
 * Returns the message in an engine's error: `{error: {message}}`, `{error: text}`, the same with `detail`, `{message}`
 * or plain text.
 * @param body parsed where it was JSON, else its text
 */
export function engineMessage(body: unknown): string | null {
  if (typeof body === 'string') return body.trim().slice(0, 1000) || null;
  if (typeof body !== 'object' || body === null) return null;
  const { error, detail, message } = body as Record<string, unknown>;
  const said = [innerMessage(error), innerMessage(detail), message].find(
    (text) => text !== undefined && text !== null,
  );
  if (said === undefined) return null;
  return typeof said === 'string' ? said : JSON.stringify(said);
}

/**
 * Returns the `message` of an error's part, or the part itself: validation errors of Python servers are a list, which
 * stays whole.
 */
function innerMessage(part: unknown): unknown {
  if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
  return (part as Record<string, unknown>).message ?? part;
}

/** Returns the `type` that OpenAI's API gives errors of a status. */
export function openAIType(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 404) return 'not_found_error';
  if (status === 409) return 'conflict_error';
  if (status === 429) return 'rate_limit_error';
  if (status === 503) return 'service_unavailable_error';
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}

/** Anthropic's error types by status; its status for an overload is 529, which is 503 here. */
const ANTHROPIC_TYPES: Record<number, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

function anthropicType(status: number): string {
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}

/**
 * Makes the error that deliberately breaks off a response whose status was sent and whose body is not an answer.
 * Cloudflare's runtime prints it as an uncaught exception, although nothing failed that operators could mend.
 */
export function brokenOff(why: string): Error {
  return new Error(`response broken off: ${why}`);
}
