import { ANY_ENDPOINT, type RouteList } from '../protocol/index.ts';
import type { LineFault } from './batch.ts';

/** A line of a batch's input that is in order. */
export interface Line {
  custom_id: string;
  /** Empty: it names none. */
  model: string;
  /** Lines with the same beginning of their prompts have the same number: run together they share the engine's cache. */
  prefix: number;
}

const CUSTOM_ID_CHARACTERS = 512;

/**
 * @param number of the line, from 1
 * @param endpoint of the batch
 * @param routes of which lines may ask for any where the endpoint says so
 */
export function readLine(
  text: string,
  number: number,
  endpoint: string,
  routes: RouteList,
): Line | LineFault {
  const fault = (code: string, message: string, param: string | null = null): LineFault => ({
    code,
    message,
    param,
    line: number,
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fault('invalid_json_line', 'This line is not valid JSON.');
  }
  if (!isObject(value)) return fault('invalid_json_line', 'This line is no JSON object.');
  const { custom_id, method = 'POST', url, body } = value;
  if (typeof custom_id !== 'string' || custom_id === '') {
    return fault('missing_required_parameter', 'custom_id: expected a text that is not empty.', 'custom_id');
  }
  if (custom_id.length > CUSTOM_ID_CHARACTERS) {
    const message = `custom_id: expected at most ${CUSTOM_ID_CHARACTERS} characters.`;
    return fault('invalid_parameter', message, 'custom_id');
  }
  if (!custom_id.isWellFormed()) {
    // It would come back as another one: files are UTF-8.
    return fault('invalid_parameter', 'custom_id: half of a surrogate pair stands in it.', 'custom_id');
  }
  if (method !== 'POST') return fault('invalid_parameter', 'method: expected "POST".', 'method');
  if (endpoint === ANY_ENDPOINT) {
    if (typeof url !== 'string' || !routes.has('POST', url))
      return fault('invalid_url', 'url: expected an inference route; docs/protocol.md lists them.', 'url');
  } else if (url !== endpoint) {
    const message = `url: expected ${endpoint}, the endpoint of the batch. One with the endpoint "${ANY_ENDPOINT}" takes lines for different routes.`;
    return fault('url_mismatch', message, 'url');
  }
  if (!isObject(body)) return fault('missing_required_parameter', 'body: expected a JSON object.', 'body');
  if (body.stream === true) {
    return fault('invalid_parameter', 'stream: a line of a batch cannot be streamed.', 'body.stream');
  }
  try {
    return { custom_id, model: modelOf(body), prefix: prefixOf(body) };
  } catch {
    return fault('invalid_json_line', 'This line is nested too deeply.');
  }
}

export function isFault(line: Line | LineFault): line is LineFault {
  return 'code' in line;
}

/** The request of a line that was found in order, its numbers as they were written. */
export function requestOf(text: string): { path: string; body: string; model: string | null } {
  const { url, body } = JSON.parse(text, exactNumbers) as { url: string; body: Record<string, unknown> };
  return { path: url, body: JSON.stringify(body), model: modelOf(body) || null };
}

function modelOf({ model }: Record<string, unknown>): string {
  return typeof model === 'string' ? model : '';
}

type RawJson = { rawJSON(text: string): unknown };

/** A number of more digits than a double has, such as a seed, stays as its caller wrote it. */
function exactNumbers(this: unknown, _key: string, value: unknown, context?: { source: string }): unknown {
  if (typeof value !== 'number' || context === undefined || String(value) === context.source) return value;
  return (JSON as unknown as RawJson).rawJSON(context.source);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A hash of the system prompt, or of what a prompt without one begins with. */
function prefixOf({ messages, instructions, prompt, input }: Record<string, unknown>): number {
  const first = Array.isArray(messages) ? messages[0] : (instructions ?? prompt ?? input);
  return hash(JSON.stringify(first ?? null).slice(0, PREFIX_CHARACTERS));
}

const PREFIX_CHARACTERS = 20_000;

/** FNV-1a, 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value >>> 0;
}
