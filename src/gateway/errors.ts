import { type ApiError, CHALLENGE, type Dialect, errorBody } from '../protocol/index.ts';
import type { Away } from './env.ts';
import { log } from './log.ts';

/** An error that ends a request, for its caller. Anything below a route may throw it. */
export class HttpError extends Error implements ApiError {
  override name = 'HttpError';
  readonly status: number;
  readonly code: string | null;
  readonly headers: Record<string, string>;
  /** The parameter that is at fault; null: none is. */
  readonly param: string | null;
  constructor(
    status: number,
    message: string,
    code: string | null = null,
    headers: Record<string, string> = {},
    param: string | null = null,
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
    this.param = param;
  }
}

/** The request that an error ends: it decides the error's shape, and its id finds it in the log. */
export interface ErrorOf {
  dialect: Dialect;
  requestId?: string;
}

const OPENAI: ErrorOf = { dialect: 'openai' };

/** Returns an error response in the shape of the API that its caller speaks. */
export function errorResponse(error: HttpError, { dialect, requestId }: ErrorOf = OPENAI): Response {
  const { status, headers } = error;
  return Response.json(errorBody(error, dialect, requestId), {
    status,
    headers: { ...challengeOf(status), ...headers },
  });
}

function challengeOf(status: number): Record<string, string> {
  return status === 401 ? { 'www-authenticate': CHALLENGE } : {};
}

/**
 * Returns the error that a caller gets for what was thrown: an HttpError as it is; for any other, one that says where
 * to look in the log.
 */
export function toHttpError(error: unknown, requestId: string = crypto.randomUUID()): HttpError {
  if (error instanceof HttpError) return error;
  const { stack, message } = Object(error) as Partial<Error>;
  const msg = `request ${requestId} failed unexpectedly`;
  log('error', msg, { request_id: requestId, error: stack ?? message });
  return new HttpError(
    500,
    `Something failed here that should not have; request ${requestId} in the log says what.`,
  );
}

/** Statuses whose responses may not have a body. */
const BODILESS = new Set([204, 205, 304]);

/** Returns what an engine answered, as its worker reported it; 502 if its status is no final status of HTTP. */
export function engineResponse(status: number, body: string, contentType: string): Response {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    const message = `The engine answered with the status ${status}, which is none of HTTP's.`;
    return errorResponse(new HttpError(502, message, 'engine_error'));
  }
  return new Response(BODILESS.has(status) ? null : body, {
    status,
    headers: { 'content-type': contentType, ...challengeOf(status) },
  });
}

/** The paths of OpenAI's API without the `/v1` with which a client's base URL ends. */
const WITHOUT_V1 =
  /^\/(audio|batches|chat\/completions|completions|conversations|embeddings|files|images|models|moderations|responses)(\/|$)/;

/** Returns what a client's base URL lacks or has too much of, as far as a path shows it; empty: nothing. */
function adviceOnBase(path: string): string {
  if (WITHOUT_V1.test(path)) return " End the client's base URL with /v1.";
  return path.startsWith('/v1/v1/') ? " Take one /v1 off the end of the client's base URL." : '';
}

/** Returns the error for a path that does not exist. */
export function noRoute(method: string, path: string): HttpError {
  const advice = adviceOnBase(path) || ' GET /openapi.json lists the routes.';
  return new HttpError(404, `There is no ${method} ${path}.${advice}`, 'route_not_found');
}

/** Returns the error for a path that exists, but does not have the requested method. */
export function otherMethod(method: string, path: string, possible: readonly string[]): HttpError {
  const allow = possible.join(', ');
  const are =
    possible.length === 1 ? `${allow} is` : `${possible.slice(0, -1).join(', ')} and ${possible.at(-1)} are`;
  const message = `${method} is not possible on ${path}; ${are}.${adviceOnBase(path)}`;
  return new HttpError(405, message, 'method_not_allowed', { allow });
}

/** @param variable the environment variable that sets the limit; left out where none does */
export function tooLarge(maxBytes: number, variable?: string): HttpError {
  const most =
    maxBytes < 1024 * 1024
      ? `${Math.floor(maxBytes / 1024)} KiB`
      : `${Math.floor(maxBytes / 1024 / 1024)} MiB`;
  const how = variable === undefined ? '' : ` The variable ${variable} of the queue sets this limit.`;
  return new HttpError(413, `The body is larger than ${most}.${how}`, 'too_large');
}

/** Returns the error for a request of a gateway that does not reach the objects. */
export function awayError({ since }: Away): HttpError {
  const message = `The gateway has had no connection to its queue since ${new Date(since).toISOString()}. Try again in a few seconds.`;
  return new HttpError(503, message, 'queue_away', retryAfter(5));
}

/** Returns the header that says when to come back, in whole seconds, at least one. */
export function retryAfter(seconds: number): Record<string, string> {
  return { 'retry-after': String(Math.max(1, Math.ceil(seconds))) };
}
