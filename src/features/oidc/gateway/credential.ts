import type { Credential } from '../../../gateway/auth/credentials.ts';
import type { AuthSettings } from '../../../gateway/env.ts';
import type { TokenEntry } from '../../../settings/token-entry.ts';
import { Provider } from './provider.ts';

/** The form of a signed JWT: its header is JSON, which begins with `{"`. */
const JWT = /^eyJ[\w-]+\.[\w-]+\.[\w-]*$/;
/** The last time that ISO writes with four digits, epoch ms. */
const LAST_TIME = Date.UTC(9999, 11, 31);
/** An issuer has this many ms for one answer. */
const ANSWER_WITHIN_MS = 5000;

/** A JWT of the issuer whose people sign in, on any route that takes a token. */
export const jwtCredential: Credential = {
  takes: (bearer, { OIDC_ISSUER: issuer }) => Boolean(issuer) && JWT.test(bearer),
  entryOf: async (jwt, env) => {
    const { SKEW_SECONDS, verifyJwt } = await import('./verify.ts');
    const audience = env.OIDC_AUDIENCE || env.OIDC_CLIENT_ID!;
    const claims = await verifyJwt(jwt, providerOf(env), { audience, now: Date.now() });
    const { entryOfClaims } = await import('./person.ts');
    const entry = await entryOfClaims(claims, env, 'bearer JWT');
    return endingAt(entry, (claims.exp + SKEW_SECONDS) * 1000);
  },
};

/** Returns the entry with the end of a JWT, unless it ends earlier. @param end epoch ms */
function endingAt(entry: TokenEntry, end: number): TokenEntry {
  const isEarlier = entry.expires_at !== undefined && Date.parse(entry.expires_at) <= end;
  return isEarlier || end > LAST_TIME ? entry : { ...entry, expires_at: new Date(end).toISOString() };
}

let provider: Provider | null = null;

/** Returns the issuer of the settings, with what this process knows of it. */
export function providerOf({ OIDC_ISSUER: issuer, wakesRequests = false }: AuthSettings): Provider {
  if (provider === null || provider.issuer !== issuer) {
    provider = new Provider(issuer!, { read: readJson, now: () => Date.now(), wakes: wakesRequests });
  }
  return provider;
}

async function readJson(url: string): Promise<unknown> {
  const response = await fetch(url, {
    headers: { accept: 'application/json' },
    redirect: 'manual',
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
  });
  if (response.ok) return await response.json();
  await response.body?.cancel();
  throw new Error(`${new URL(url).pathname} answered ${response.status}`);
}
