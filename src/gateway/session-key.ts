import { parseJsonBytes } from '../protocol/index.ts';
import type { PromptFields } from '../request-facts/lengths.ts';

/** The longest name of a conversation, bytes of JSON. */
const SESSION_BYTES = 1024;

/**
 * Returns the name of the conversation that a request belongs to, by which an alias keeps it at one model.
 * @param header the request's `X-Session-Id`
 */
export function sessionOf(
  header: string | null,
  { prompt_cache_key, user }: PromptFields,
): { session?: string } {
  const session = header || textOf(prompt_cache_key) || textOf(user);
  return session ? { session: session.slice(0, SESSION_BYTES) } : {};
}

function textOf(json: Uint8Array | undefined): string | null {
  if (json === undefined || json.byteLength > SESSION_BYTES) return null;
  const value = parseJsonBytes(json);
  return typeof value === 'string' ? value : null;
}
