import * as client from 'openid-client';
import type { AuthSettings } from '../../../gateway/env.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { isPlain } from '../../../protocol/index.ts';
import { providerOf } from './credential.ts';
import { type Claims, SKEW_SECONDS, verifyJwt } from './verify.ts';

/** The issuer has this many seconds to take a code. */
const ANSWER_WITHIN_SECONDS = 10;
/** The longest words of an issuer that a person is shown. */
const LONGEST_WORDS = 200;

/** A sign-in that was begun: what the issuer's answer has to fit. */
export interface Begun {
  state: string;
  nonce: string;
  /** The secret of PKCE (RFC 7636), whose hash the issuer has. */
  verifier: string;
  /** The address to which the issuer sends the browser back. */
  redirect_uri: string;
}

/**
 * Begins a sign-in by the authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1).
 * @returns the issuer's address for the browser
 * @throws HttpError 503 where the issuer does not answer
 */
export async function begin(redirectUri: string, env: AuthSettings): Promise<{ url: string; begun: Begun }> {
  const verifier = client.randomPKCECodeVerifier();
  const begun: Begun = {
    state: client.randomState(),
    nonce: client.randomNonce(),
    verifier,
    redirect_uri: redirectUri,
  };
  const configuration = await configurationOf(env);
  const url = client.buildAuthorizationUrl(configuration, {
    redirect_uri: redirectUri,
    scope: scopesOf(configuration.serverMetadata().scopes_supported),
    state: begun.state,
    nonce: begun.nonce,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  });
  return { url: url.href, begun };
}

/**
 * Ends a sign-in: takes the code of the issuer's answer to the issuer, and checks the id token that it gets for it.
 * @param search the query with which the issuer sent the browser back
 * @throws HttpError that says, in one sentence, why nobody is signed in
 */
export async function end(search: string, begun: Begun, env: AuthSettings): Promise<Claims> {
  const configuration = await configurationOf(env);
  try {
    const back = new URL(begun.redirect_uri);
    back.search = search;
    const tokens = await client.authorizationCodeGrant(configuration, back, {
      expectedState: begun.state,
      expectedNonce: begun.nonce,
      pkceCodeVerifier: begun.verifier,
    });
    // The code came over the browser, and the token from the issuer itself; its signature is checked all the same.
    return await verifyJwt(tokens.id_token!, providerOf(env), {
      audience: env.OIDC_CLIENT_ID!,
      now: Date.now(),
    });
  } catch (error) {
    throw toldFailure(error, new URL(env.OIDC_ISSUER!).host);
  }
}

async function configurationOf(env: AuthSettings): Promise<client.Configuration> {
  const { metadata } = await providerOf(env).published();
  const { OIDC_CLIENT_ID: id, OIDC_CLIENT_SECRET: secret } = env;
  const configuration = new client.Configuration(
    metadata as client.ServerMetadata,
    id!,
    { [client.clockTolerance]: SKEW_SECONDS },
    secret ? withSecret(metadata as client.ServerMetadata, secret) : client.None(),
  );
  configuration.timeout = ANSWER_WITHIN_SECONDS;
  // The settings allow http for issuers of this machine alone.
  if (new URL(env.OIDC_ISSUER!).protocol === 'http:') client.allowInsecureRequests(configuration);
  return configuration;
}

/** Issuers take the secret in a header unless they say otherwise (OpenID Connect Discovery 1.0, section 3). */
function withSecret(metadata: client.ServerMetadata, secret: string): client.ClientAuth {
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  return methods.includes('client_secret_basic')
    ? client.ClientSecretBasic(secret)
    : client.ClientSecretPost(secret);
}

/** Returns the scopes that are requested: Dex wants `groups` named, and Entra refuses scopes that it does not know. */
function scopesOf(supported: readonly string[] = ['email']): string {
  return ['openid', ...['email', 'groups'].filter((scope) => supported.includes(scope))].join(' ');
}

function toldFailure(error: unknown, host: string): unknown {
  if (error instanceof HttpError) return error;
  if (error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError) {
    const { error: code, error_description: words } = error;
    return failure(
      `${host} refused the sign-in: ${words && isPlain(words) ? `${words.slice(0, LONGEST_WORDS)} ` : ''}(${code}).`,
    );
  }
  const { code, cause, message } = error as Error & { code?: string };
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') {
    return failure(`The clocks of this queue and of ${host} differ by more than a minute.`);
  }
  const why = cause instanceof Error ? cause.message : message;
  return failure(`The sign-in at ${host} did not come to its end: ${why}.`);
}

function failure(message: string): HttpError {
  return new HttpError(403, message, 'sign_in_failed');
}
