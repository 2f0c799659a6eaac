import { createServer } from 'node:http';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { type ClientMetadata, Provider } from 'oidc-provider';
import { freePort } from './ports.ts';

/** The id of the queue at the issuer. */
export const CLIENT_ID = 'queue';

/** A person of the issuer, by the name with which they sign in, which is their subject too. */
interface Person {
  email?: string;
  groups?: string[];
}

/** An OpenID Connect issuer that runs: oidc-provider, with its own pages and metadata. */
export interface RunningIssuer {
  issuer: string;
  /** How often its keys were read. */
  keyReads(): number;
  /** Signs a JWT with one of its keys. */
  sign(claims: JWTPayload, header?: Record<string, unknown>, alg?: string): Promise<string>;
  /** The public key of its tokens as everybody knows it, a JWK. */
  publicKey(): Promise<string>;
  stop(): Promise<void>;
}

interface Options {
  port?: number;
  /** The host of its address; left out: 127.0.0.1. `localhost` is another site for browsers. */
  host?: string;
  people?: Record<string, Person>;
  redirectUris?: string[];
  clientSecret?: string;
}

/** Starts an issuer at the loopback interface. Its pages ask for a name, take any password, and ask for consent. */
export async function startIssuer(options: Options = {}): Promise<RunningIssuer> {
  const port = options.port ?? (await freePort());
  const issuer = `http://${options.host ?? '127.0.0.1'}:${port}`;
  const pairs = new Map<string, Awaited<ReturnType<typeof generateKeyPair>>>();
  for (const alg of ['RS256', 'ES256', 'EdDSA'])
    pairs.set(alg, await generateKeyPair(alg, { extractable: true }));
  const keys = await Promise.all(
    [...pairs].map(async ([alg, { privateKey }]) => ({
      ...(await exportJWK(privateKey)),
      alg,
      kid: `${alg} ${port}`,
      use: 'sig',
    })),
  );
  const { people = {}, redirectUris = [], clientSecret } = options;
  const client: ClientMetadata = {
    client_id: CLIENT_ID,
    redirect_uris: redirectUris,
    response_types: ['code'],
    grant_types: ['authorization_code'],
    ...(clientSecret ? { client_secret: clientSecret } : { token_endpoint_auth_method: 'none' }),
  };
  const provider = new Provider(issuer, {
    clients: redirectUris.length > 0 ? [client] : [],
    jwks: { keys },
    // The claims stand in the id token, as most issuers have it.
    conformIdTokenClaims: false,
    claims: { openid: ['sub', 'groups'], email: ['email'] },
    findAccount: (_, sub) => ({ accountId: sub, claims: async () => ({ sub, ...people[sub] }) }),
    cookies: { keys: ['for tests'] },
  });
  let keyReads = 0;
  const answer = provider.callback();
  const server = createServer((incoming, outgoing) => {
    if (incoming.url === '/jwks') keyReads += 1;
    void answer(incoming, outgoing);
  });
  await new Promise<void>((listening) => server.listen(port, options.host ?? '127.0.0.1', listening));
  return {
    issuer,
    keyReads: () => keyReads,
    sign: (claims, header = {}, alg = 'RS256') =>
      new SignJWT({ iss: issuer, aud: CLIENT_ID, exp: seconds() + 300, iat: seconds(), ...claims })
        .setProtectedHeader({ alg, kid: `${alg} ${port}`, ...header })
        .sign(pairs.get(alg)!.privateKey),
    publicKey: async () => JSON.stringify(await exportJWK(pairs.get('RS256')!.publicKey)),
    stop: () =>
      new Promise((stopped) => {
        server.close(() => stopped());
        server.closeAllConnections();
      }),
  };
}

/** The time now, seconds since the epoch. */
export function seconds(): number {
  return Math.floor(Date.now() / 1000);
}
