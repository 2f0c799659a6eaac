import type { TokenEntry } from '../../settings/token-entry.ts';
import type { AuthSettings } from '../env.ts';

/** Another kind of bearer than this queue's own tokens. */
export interface Credential {
  /** Returns whether a bearer is of this kind. Every request with a token asks, so it must be quick. */
  takes(bearer: string, env: AuthSettings): boolean;
  /**
   * Returns the entry for which a bearer stands; its `expires_at` is the bearer's end.
   * @throws HttpError 401 where the bearer is not good, 403 where its holder may do nothing here, 503 where nobody can
   * tell
   */
  entryOf(bearer: string, env: AuthSettings): Promise<TokenEntry>;
}

const credentials: Credential[] = [];

/** Registers a kind of credential, for all requests of this process. */
export function addCredential(credential: Credential): void {
  if (!credentials.includes(credential)) credentials.push(credential);
}

/** Returns the kind of credential that a bearer is; undefined: it is a token. */
export function credentialFor(bearer: string, env: AuthSettings): Credential | undefined {
  return credentials.find((credential) => credential.takes(bearer, env));
}
