import { parseJsonBytes } from '../protocol/index.ts';
import { readingJson } from './fault.ts';

/**
 * The one request that a stored job makes to an engine, out of its payload, in any of its forms. The worker makes the
 * same request; so models, limits and priorities are judged by what the engine will read.
 */
export interface JobRequest {
  /** The path on the engine; null: the payload names none that a worker could request. */
  path: string | null;
  /** The body in UTF-8; empty: none. */
  body: Uint8Array;
  /** The content type; null: none is named, which means JSON. */
  contentType: string | null;
  /**
   * The names, from the outermost, under which the payload holds the body, or those fields of the body that the payload
   * has.
   */
  place: readonly string[];
  /** True if the payload holds the body as a text. */
  isText: boolean;
  /** The model that the worker puts into a body that names none; null: whatever the engine serves. */
  otherwiseModel: string | null;
  /** The bound of the answer that the worker puts into a body that has none; null: it puts none. */
  otherwiseTokens: number | null;
  /** The priorities that the job requests beside the body, such as in each `X-Vllm-Priority` of its headers. */
  priorities: readonly unknown[];
}

export const NO_BODY = new Uint8Array();

export function encoded(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Returns the text that the JSON holds; null where it is no text. */
export function textIn(json: Uint8Array | undefined): string | null {
  return json?.[0] === 0x22 ? String(readingJson(() => parseJsonBytes(json))) : null;
}

export function isNull(json: Uint8Array): boolean {
  return json.byteLength === 4 && new TextDecoder().decode(json) === 'null';
}
