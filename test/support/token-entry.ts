import { createHash } from 'node:crypto';
import type { TokenEntry } from '../../src/settings/token-entry.ts';

/** What a queue keeps of a token, which has the token's own text as its name unless another is given. */
export function tokenEntry(
  token: string,
  scopes: TokenEntry['scopes'],
  more: Partial<TokenEntry> = {},
): TokenEntry {
  const sha256 = createHash('sha256').update(token).digest('hex');
  return { name: token, sha256, scopes, ...more };
}
