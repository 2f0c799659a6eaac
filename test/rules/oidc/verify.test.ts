import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { expect, it, vi } from 'vitest';
import { Provider } from '../../../src/features/oidc/gateway/provider.ts';
import { verifyJwt } from '../../../src/features/oidc/gateway/verify.ts';

const ISSUER = 'https://login.example.com';

it('imports a key once for all tokens that it has signed, and again once the keys are read anew', async () => {
  const pair = await generateKeyPair('ES256', { extractable: true });
  const key = { ...(await exportJWK(pair.publicKey)), kid: 'first', alg: 'ES256' };
  let now = Date.now();
  const read = async (url: string) =>
    url.endsWith('/keys') ? { keys: [key] } : { issuer: ISSUER, jwks_uri: `${ISSUER}/keys` };
  const provider = new Provider(ISSUER, { read, now: () => now, wakes: true });
  const jwtOf = (sub: string) =>
    new SignJWT({ iss: ISSUER, aud: 'queue', sub, exp: Math.floor(now / 1000) + 3600 })
      .setProtectedHeader({ alg: 'ES256', kid: 'first' })
      .sign(pair.privateKey);
  const jwts = await Promise.all(['ada', 'bob', 'eve'].map(jwtOf));
  const imports = vi.spyOn(crypto.subtle, 'importKey');
  const verified = async () => {
    const claims = [];
    for (const jwt of jwts) claims.push(await verifyJwt(jwt, provider, { audience: 'queue', now }));
    return claims.map(({ sub }) => sub);
  };
  expect(await verified()).toEqual(['ada', 'bob', 'eve']);
  expect(imports).toHaveBeenCalledTimes(1);
  now += 11 * 60_000;
  expect(await verified()).toEqual(['ada', 'bob', 'eve']);
  expect(imports).toHaveBeenCalledTimes(2);
  imports.mockRestore();
});
