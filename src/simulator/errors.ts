/** This file makes errors in vLLM's words and shapes. */
export class ApiError extends Error {
  readonly status: number;
  readonly type: string;
  readonly param: string | null;

  constructor(status: number, type: string, message: string, param: string | null = null) {
    super(message);
    this.status = status;
    this.type = type;
    this.param = param;
  }

  get body(): unknown {
    const { message, type, param, status } = this;
    return { error: { message, type, param, code: status } };
  }
}

/** One thing wrong with a body, in pydantic's terms. */
export interface BodyIssue {
  type: string;
  /** The place within the body, e.g. `messages.0.role`; empty for the body itself. */
  path: string;
  message: string;
  input: unknown;
}

/** Returns the error for a value that the model cannot take. The message repeats the parameter, as vLLM's does. */
export function badRequest(message: string, param: string | null = null, value?: number | string): ApiError {
  const parameter =
    param === null ? '' : ` (parameter=${param}${value === undefined ? '' : `, value=${value}`})`;
  return new ApiError(400, 'BadRequestError', message + parameter, param);
}

/** Returns the error for a body that does not have the form of the API. */
export function invalidBody(issues: BodyIssue[]): ApiError {
  const paths = issues.map(({ path }) => (path === '' ? 'body' : `body.${path}`));
  const lines = issues.map(
    ({ type, message, input }, at) =>
      `\n  {'type': '${type}', 'loc': '${paths[at]}', 'msg': '${message}', 'input': ${pythonValue(input)}}`,
  );
  const count = issues.length === 1 ? '1 validation error' : `${issues.length} validation errors`;
  return new ApiError(400, 'Bad Request', `${count}:${lines.join('')}`, paths[0]!);
}

export function unsupportedMediaType(): ApiError {
  const message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed";
  return new ApiError(400, 'Bad Request', message);
}

export function notFound(message: string, param: string): ApiError {
  return new ApiError(404, 'NotFoundError', message, param);
}

export function permissionDenied(message: string): ApiError {
  return new ApiError(403, 'PermissionDeniedError', message);
}

export function engineBusy(): ApiError {
  const message =
    'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.';
  return new ApiError(503, 'Service Unavailable', message);
}

export function engineDead(): ApiError {
  const message = 'EngineCore encountered an issue. See stack trace (above) for the root cause.';
  return new ApiError(500, 'InternalServerError', message);
}

export function internalError(message: string): ApiError {
  return new ApiError(500, 'InternalServerError', message);
}

function pythonValue(value: unknown): string {
  if (Array.isArray(value)) return `'<list of ${value.length} items>'`;
  if (typeof value === 'object' && value !== null) return `'<dict of ${Object.keys(value).length} items>'`;
  return typeof value === 'string' ? `'${value}'` : String(value);
}
