import type { IncomingMessage } from 'node:http';
import { invalidBody, unsupportedMediaType } from './errors.ts';

/** Reads a JSON body. @throws ApiError if it is not a JSON object; the request's own error if it was cut off */
export async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  const bytes = await readBytes(request);
  if (type !== 'application/json') throw unsupportedMediaType();
  let body: unknown;
  try {
    body = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1] ?? '0';
    throw invalidBody([{ type: 'json_invalid', path: position, message: 'JSON decode error', input: {} }]);
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body))
    return body as Record<string, unknown>;
  const message = 'Input should be a valid dictionary or object to extract fields from';
  throw invalidBody([{ type: 'model_attributes_type', path: '', message, input: body }]);
}

/** Reads a form, and the number of its bytes. @throws ApiError if the body is no form */
export async function readForm(request: IncomingMessage): Promise<{ form: FormData; bytes: number }> {
  const bytes = await readBytes(request);
  const headers = { 'content-type': request.headers['content-type'] ?? '' };
  try {
    return { form: await new Response(new Uint8Array(bytes), { headers }).formData(), bytes: bytes.length };
  } catch {
    throw invalidBody([{ type: 'missing', path: 'file', message: 'Field required', input: null }]);
  }
}

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}
