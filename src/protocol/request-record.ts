import type * as z from 'zod';
import type * as schemas from './request-schema.ts';

/** Of an error's message, characters. */
export const RECORD_ERROR_CHARACTERS = 500;

export type RequestRecord = z.infer<typeof schemas.RequestRecord>;

/** Failed or slow: kept apart from those that went well, of which there are far more. */
export function isNotable({ outcome, is_slow }: Pick<RequestRecord, 'outcome' | 'is_slow'>): boolean {
  return is_slow || outcome === 'failed' || outcome === 'expired' || outcome === 'rejected';
}

/** Between two tokens of a streamed answer, as its mean, ms; null: not known. */
export function perTokenMs({
  tokens_out,
  first_token_ms,
  total_ms,
}: Pick<RequestRecord, 'tokens_out' | 'first_token_ms' | 'total_ms'>): number | null {
  if (first_token_ms === null || tokens_out === null || tokens_out < 2) return null;
  return (total_ms - first_token_ms) / (tokens_out - 1);
}

/** Tokens a second while the answer came; null: not known. */
export function tokensPerSecond(
  request: Pick<RequestRecord, 'tokens_out' | 'first_token_ms' | 'wait_ms' | 'total_ms'>,
) {
  const { tokens_out, first_token_ms, wait_ms, total_ms } = request;
  if (!tokens_out) return null;
  // The first token is there when the rest begins to come.
  const [tokens, from] = first_token_ms === null ? [tokens_out, wait_ms] : [tokens_out - 1, first_token_ms];
  const seconds = (total_ms - from) / 1000;
  return tokens > 0 && seconds > 0 ? tokens / seconds : null;
}
