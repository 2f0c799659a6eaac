import type * as z from 'zod';
import type * as schemas from './request-schema.ts';

/** The longest error message in a record. */
export const RECORD_ERROR_CHARACTERS = 500;

export type RequestRecord = z.infer<typeof schemas.RequestRecord>;

/**
 * Returns whether a request failed or was slow: such records are stored apart from those that went well, of which there
 * are far more.
 */
export function isNotable({ outcome, is_slow }: Pick<RequestRecord, 'outcome' | 'is_slow'>): boolean {
  return is_slow || outcome === 'failed' || outcome === 'expired' || outcome === 'rejected';
}

/** Returns the mean time between two tokens of a streamed answer, ms, or null if it is not known. */
export function perTokenMs({
  tokens_out,
  first_token_ms,
  total_ms,
}: Pick<RequestRecord, 'tokens_out' | 'first_token_ms' | 'total_ms'>): number | null {
  if (first_token_ms === null || tokens_out === null || tokens_out < 2) return null;
  return (total_ms - first_token_ms) / (tokens_out - 1);
}

/** Returns the tokens per second while the answer came, or null if they are not known. */
export function tokensPerSecond(
  request: Pick<RequestRecord, 'tokens_out' | 'first_token_ms' | 'wait_ms' | 'total_ms'>,
) {
  const { tokens_out, first_token_ms, wait_ms, total_ms } = request;
  if (!tokens_out) return null;
  // The tokens after the first one come from the time of the first one on.
  const [tokens, from] = first_token_ms === null ? [tokens_out, wait_ms] : [tokens_out - 1, first_token_ms];
  const seconds = (total_ms - from) / 1000;
  return tokens > 0 && seconds > 0 ? tokens / seconds : null;
}
