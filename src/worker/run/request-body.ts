import { boundaryOf, type EngineRequest, formFields, replaceBytes } from '../../protocol/index.ts';
import { replaceModelAlias } from './model-name.ts';

const OPEN_BRACE = 0x7b;

/**
 * Returns the body of a request as the engine gets it, with the engine's own name in place of an alias of its model.
 */
export function requestBody(
  request: EngineRequest,
  aliases: ReadonlySet<string>,
  served: string | undefined,
): string | Uint8Array | undefined {
  const {
    body = request.body_base64 === undefined ? undefined : Buffer.from(request.body_base64, 'base64'),
  } = request;
  if (body === undefined || served === undefined) return body;
  if (typeof body === 'string') return replaceModelAlias(body, aliases, served);
  const boundary = boundaryOf(request.content_type);
  if (boundary !== null) return replaceInForm(body, boundary, aliases, served);
  return isJson(body) ? replaceModelAlias(body, aliases, served) : body;
}

/** Tells whether a body may be a JSON object: blanks may stand before it. */
export function isJson(body: Uint8Array): boolean {
  const at = body.findIndex((byte) => byte > 0x20);
  return body[at] === OPEN_BRACE;
}

function replaceInForm(
  body: Uint8Array,
  boundary: string,
  aliases: ReadonlySet<string>,
  served: string,
): Uint8Array {
  const value = formFields(body, boundary).get('model');
  const isAlias = value !== undefined && aliases.has(new TextDecoder().decode(value));
  return isAlias ? replaceBytes(body, value, served) : body;
}
