import {
  createLocalJWKSet,
  decodeProtectedHeader,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  jwtVerify,
} from 'jose';
import { HttpError } from '../../../gateway/errors.ts';
import type { Provider } from './provider.ts';

/** The algorithms that are taken, all of them with public keys: none, and no shared secret. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
/** The types of tokens that are taken: an issuer's other tokens, such as those of a logout, say nothing of a caller. */
const TYPES = [undefined, 'jwt', 'at+jwt', 'application/at+jwt'];

/** Clocks may differ by this many seconds. */
export const SKEW_SECONDS = 60;

/** The published keys as jose looks them up. It imports each key once, which takes longer than to check a signature. */
const keySets = new WeakMap<JSONWebKeySet, ReturnType<typeof createLocalJWKSet>>();

/** The claims of a token that is known to be its issuer's. */
export type Claims = JWTPayload & Required<Pick<JWTPayload, 'sub' | 'exp'>>;

/**
 * Returns the claims of a JWT of an issuer. Keys come from the issuer alone: what the token's header says of keys, but
 * for the id, is never read.
 * @param now epoch ms
 * @throws HttpError 401 where the token is not good, 503 where the issuer's keys cannot be read
 */
export async function verifyJwt(
  jwt: string,
  provider: Provider,
  { audience, now }: { audience: string; now: number },
): Promise<Claims> {
  try {
    const { alg, kid, typ } = decodeProtectedHeader(jwt);
    if (!ALGORITHMS.includes(alg ?? '')) throw refused(`it is signed with ${JSON.stringify(alg)}`);
    if (!TYPES.includes(typ?.toLowerCase())) throw refused(`its type is ${JSON.stringify(typ)}`);
    const { keys } = await provider.published(kid ?? null);
    const { payload } = await jwtVerify<Claims>(jwt, keySetOf(keys), {
      issuer: provider.issuer,
      audience,
      algorithms: ALGORITHMS,
      requiredClaims: ['sub', 'exp'],
      clockTolerance: SKEW_SECONDS,
      currentDate: new Date(now),
    });
    if (typeof payload.sub !== 'string' || payload.sub === '') throw refused('its claim "sub" is no text');
    return payload;
  } catch (error) {
    throw toldRefusal(error, audience);
  }
}

function keySetOf(keys: JSONWebKeySet): ReturnType<typeof createLocalJWKSet> {
  const known = keySets.get(keys) ?? createLocalJWKSet(keys);
  keySets.set(keys, known);
  return known;
}

function toldRefusal(error: unknown, audience: string): unknown {
  if (error instanceof errors.JWTExpired) {
    const { exp } = error.payload;
    const at = typeof exp === 'number' ? ` (${new Date(exp * 1000).toISOString()})` : '';
    const message = `This token has expired${at}. Ask its issuer for a new one.`;
    return new HttpError(401, message, 'token_expired');
  }
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, payload } = error;
    const said = JSON.stringify(payload[claim] ?? null);
    if (claim === 'aud')
      return refused(`its audience is ${said}, and this queue takes ${JSON.stringify(audience)}`);
    if (claim === 'iss') return refused(`its issuer is ${said}, which is not the one of this queue`);
    if (claim === 'nbf') return refused('it is not good yet');
    return refused(`its claim "${claim}" is missing or wrong`);
  }
  if (error instanceof errors.JWKSNoMatchingKey) return refused('its issuer has no such key');
  if (error instanceof errors.JWKSMultipleMatchingKeys) {
    return refused('it names no key ("kid"), and its issuer has several');
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) return refused('its signature is wrong');
  if (error instanceof errors.JOSEError || error instanceof TypeError) return refused('it cannot be read');
  return error;
}

function refused(why: string): HttpError {
  return new HttpError(401, `This token is not taken: ${why}.`, 'token_invalid');
}
