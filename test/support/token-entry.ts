import { createHash } from 'node:crypto';
import type { TokenEntry } from '../../src/settings/token-entry.ts';

/** Returns the entry of a token, whose name is the token's own text unless another is given. */
export function tokenEntry(
  token: string,
  scopes: TokenEntry['scopes'],
  more: Partial<TokenEntry> = {},
): TokenEntry {
  const sha256 = createHash('sha256').update(token).digest('hex');
  return { name: token, sha256, scopes, ...more };
}
