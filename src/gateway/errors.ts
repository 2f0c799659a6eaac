import { openAIError } from '../protocol/index.ts';

/** A request that ends with an error for its caller. Thrown anywhere below a route. */
export class HttpError extends Error {
  override name = 'HttpError';
  readonly status: number;
  readonly code: string | null;
  readonly headers: Record<string, string>;
  constructor(
    status: number,
    message: string,
    code: string | null = null,
    headers: Record<string, string> = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** An error response in the shape of the OpenAI API. */
export function errorResponse(error: HttpError): Response {
  return Response.json(openAIError(error.message, errorType(error.status), error.code), {
    status: error.status,
    headers: error.headers,
  });
}

/** What a caller is told of whatever was thrown: its own message where it was meant for callers, else where to look. */
export function responseTo(error: Error): Response {
  if (error instanceof HttpError) return errorResponse(error);
  const requestId = crypto.randomUUID();
  console.error(`request ${requestId} failed unexpectedly: ${error.stack ?? error.message}`);
  return errorResponse(
    new HttpError(
      500,
      `Something failed here that should not have; request ${requestId} in the log says what.`,
    ),
  );
}

/** Statuses whose responses may not have a body. */
const BODILESS = new Set([204, 205, 304]);

/** What an engine answered, as a worker reported it; 502 where that is no final status of HTTP. */
export function engineResponse(status: number, body: string, contentType: string): Response {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    const message = `The engine answered with the status ${status}, which is none of HTTP's.`;
    return errorResponse(new HttpError(502, message, 'engine_error'));
  }
  return new Response(BODILESS.has(status) ? null : body, {
    status,
    headers: { 'content-type': contentType },
  });
}

export function tooLarge(maxBytes: number): HttpError {
  const most =
    maxBytes < 1024 * 1024
      ? `${Math.floor(maxBytes / 1024)} KiB`
      : `${Math.floor(maxBytes / 1024 / 1024)} MiB`;
  return new HttpError(413, `The body is larger than ${most}.`, 'too_large');
}

/** Says when to come back; whole seconds, at least one. */
export function retryAfter(seconds: number): Record<string, string> {
  return { 'retry-after': String(Math.max(1, Math.ceil(seconds))) };
}

/** The `type` OpenAI's API gives errors of a status. */
export function errorType(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 404) return 'not_found_error';
  if (status === 409) return 'conflict_error';
  if (status === 429) return 'rate_limit_error';
  if (status === 503) return 'service_unavailable_error';
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}
