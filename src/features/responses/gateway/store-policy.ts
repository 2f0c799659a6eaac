import type { Caller } from '../../../gateway/auth/authorize.ts';
import { HttpError } from '../../../gateway/errors.ts';
import type { Fields } from '../types.ts';

/** The rules of what a token may store. Without tokens, or with a token that says nothing, everything may be stored. */

/**
 * Returns whether a request without the field `store` is stored.
 * @throws HttpError 403 where it asks for what its token may not store
 */
export function storesByDefault(token: Caller | null, { store, background }: Fields): boolean {
  if (store === true) requireStoring(token, 'store');
  if (background === true) requireStoring(token, 'background');
  return token?.store !== 'deny' && token?.store !== 'off';
}

/** @throws HttpError 403 where the token may store nothing */
export function requireStoring(token: Caller | null, param: string | null): void {
  if (token?.store !== 'deny') return;
  const what = param === 'background' ? ', and responses in the background are stored while they run' : '';
  const message = `The token "${token.name}" may store no responses and no conversations${what}. Its entry decides: "store".`;
  throw new HttpError(403, message, 'store_denied', {}, param);
}
