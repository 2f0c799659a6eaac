import { limits } from '../protocol/index.ts';
import { HttpError } from './errors.ts';

/**
 * How much of a body that is too large is read and thrown away. A client that is still sending when it is
 * answered sees a broken connection instead of the answer.
 */
const DISCARDED_BYTES = 256 * 1024 * 1024;

/**
 * The body as text.
 * @throws HttpError 413 when it is longer than `maxBytes`
 */
export async function readText(request: Request, maxBytes: number = limits.PAYLOAD_BYTES): Promise<string> {
  if (!request.body) return '';
  let pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of request.body as unknown as AsyncIterable<Uint8Array>) {
    size += piece.byteLength;
    if (size <= maxBytes) pieces.push(piece);
    else pieces = [];
    if (size > DISCARDED_BYTES) break;
  }
  if (size > maxBytes) throw tooLarge(maxBytes);
  const decoder = new TextDecoder();
  return pieces.map((piece) => decoder.decode(piece, { stream: true })).join('') + decoder.decode();
}

/**
 * The value a JSON body stands for.
 * @throws HttpError 400
 */
export function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new HttpError(400, `The body is not valid JSON: ${(error as Error).message}`, 'invalid_json');
  }
}

/** What the gateway needs to know of a body that it passes on as it came. */
export interface RequestFacts {
  model: string | null;
  stream: boolean;
  includeUsage: boolean;
}

/** @throws HttpError 400 when the body is not a JSON object, or its model not text */
export function readFacts(text: string): RequestFacts {
  const body = parseBody(text);
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new HttpError(400, 'The body must be a JSON object.', 'invalid_json');
  }
  const { model, stream, stream_options } = body as Record<string, unknown>;
  if (model !== undefined && model !== null && typeof model !== 'string') {
    throw new HttpError(400, 'model: expected a string.', 'invalid_model');
  }
  return {
    model: model || null,
    stream: stream === true,
    includeUsage: (stream_options as { include_usage?: unknown } | null | undefined)?.include_usage === true,
  };
}

export function tooLarge(maxBytes: number): HttpError {
  return new HttpError(
    413,
    `The body is larger than ${Math.floor(maxBytes / 1024 / 1024)} MiB.`,
    'too_large',
  );
}
