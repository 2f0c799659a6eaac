import { parseJsonBytes } from '../protocol/index.ts';
import { readingJson } from './fault.ts';

/**
 * The one request that a stored job makes of an engine, out of its payload, in any of its forms. The worker makes the same
 * request of it; so models, limits and priorities are judged by what the engine will read.
 */
export interface JobRequest {
  /** Null: the payload names none that could be asked for. */
  path: string | null;
  /** In UTF-8; empty: there is none. */
  body: Uint8Array;
  /** Null: none is named, which is JSON. */
  contentType: string | null;
  /** Where the body, or those fields of it that the payload has, stand in the payload: names from the outermost. */
  place: readonly string[];
  /** It stands there as a text. */
  isText: boolean;
  /** The model that the worker puts into a body which names none; null: whatever the engine serves. */
  otherwiseModel: string | null;
  /** The bound of an answer that the worker puts into a body which has none; null: it puts none. */
  otherwiseTokens: number | null;
  /** What it asks for beside the body: in each `X-Vllm-Priority` of its headers. */
  priorities: readonly unknown[];
}

export const NO_BODY = new Uint8Array();

export const CHAT_PATH = '/v1/chat/completions';
export const COMPLETIONS_PATH = '/v1/completions';

export function encoded(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Null where it is no text. */
export function textIn(json: Uint8Array | undefined): string | null {
  return json?.[0] === 0x22 ? String(readingJson(() => parseJsonBytes(json))) : null;
}

export function isNull(json: Uint8Array): boolean {
  return json.byteLength === 4 && new TextDecoder().decode(json) === 'null';
}
