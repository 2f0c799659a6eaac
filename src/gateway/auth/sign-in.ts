import { DEFAULT_QUEUE } from '../../settings/queue-settings.ts';
import type { TokenEntry } from '../../settings/token-entry.ts';
import type { Env, RequestHead } from '../env.ts';
import { HttpError } from '../errors.ts';
import { callFleet } from '../objects/calls.ts';
import { entryByHash, hasExpired, hexOf, sha256Of, type TokenSources } from './tokens.ts';

/**
 * The functions of this file sign people in to the page: a token is posted once, and a cookie stands for it. The
 * cookie holds a random id; the fleet object of the default queue keeps the id's hash with the token's, whichever
 * queue the page shows. Somebody who is signed in may do what the token may, for as long as the token is configured.
 */

/** A cookie is good for this many ms: a working day. */
const GOOD_FOR_MS = 12 * 3_600_000;

/**
 * The cookies' names. Browsers take `__Host-` over TLS alone, for the whole host, and from no other host of the
 * domain.
 */
const COOKIES = { overTls: '__Host-worker-vllm', else: 'worker-vllm' };

export interface SignedIn {
  /** The end of the sign-in, epoch ms. */
  expires_at: number;
  /** The value of `Set-Cookie`. */
  cookie: string;
}

/**
 * Signs a person in with a token.
 * @param basePath the path under which browsers see this gateway, "/" or "/queue/"
 * @param now epoch ms
 */
export async function signIn(
  request: RequestHead,
  env: Pick<Env, 'objects'>,
  entry: TokenEntry,
  basePath: string,
  now: number,
): Promise<SignedIn> {
  const id = hexOf(crypto.getRandomValues(new Uint8Array(32)));
  const expires_at = now + GOOD_FOR_MS;
  const row = { id_sha256: await sha256Of(id), token_sha256: entry.sha256, expires_at };
  await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.signIn(row));
  return { expires_at, cookie: cookieWith(request, id, basePath, GOOD_FOR_MS / 1000) };
}

/** Signs a person out. @returns the value of `Set-Cookie` with which the browser forgets the cookie too */
export async function signOut(
  request: RequestHead,
  env: Pick<Env, 'objects'>,
  basePath: string,
): Promise<string> {
  const id = idIn(request);
  if (id !== null) {
    const hash = await sha256Of(id);
    await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.signOut(hash));
  }
  return cookieWith(request, '', basePath, 0);
}

/**
 * Returns the token for which the cookie of a request stands, and when the cookie ends; null where the request has no
 * valid cookie.
 */
export async function signedIn(
  request: RequestHead,
  env: TokenSources,
): Promise<{ id_sha256: string; entry: TokenEntry; expires_at: number } | null> {
  const id = idIn(request);
  if (id === null) return null;
  const hash = await sha256Of(id);
  const row = await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.signedIn(hash));
  const entry = row && (await entryByHash(row.token_sha256, env));
  return entry && !hasExpired(entry) ? { id_sha256: hash, entry, expires_at: row.expires_at } : null;
}

/**
 * Returns the entry of the token for which a request's cookie stands; null where the request has no valid cookie.
 * @throws HttpError 403 for a change, or a WebSocket, that another page than ours requests
 */
export async function entryOfCookie(
  request: RequestHead,
  env: TokenSources,
): Promise<(TokenEntry & { signed_in: string }) | null> {
  if (idIn(request) === null) return null;
  // Other pages cannot read answers, so only what changes something, or opens a socket, is of use to them.
  const onlyReads = request.method === 'GET' || request.method === 'HEAD';
  if (!onlyReads || request.headers.has('upgrade')) requireOwnPage(request);
  const found = await signedIn(request, env);
  return found && { ...found.entry, signed_in: found.id_sha256 };
}

/**
 * Checks that a browser says that a page of this gateway sent the request. Pages cannot make these headers up.
 * @throws HttpError 403 where it does not
 */
export function requireOwnPage({ headers, url }: RequestHead): void {
  const site = headers.get('sec-fetch-site');
  const origin = headers.get('origin');
  // Proxies often rewrite Host, and then send the original in X-Forwarded-Host.
  const hosts = [headers.get('host') ?? new URL(url).host, headers.get('x-forwarded-host')];
  const isOwn =
    site !== null
      ? site === 'same-origin'
      : origin !== null && URL.canParse(origin) && hosts.includes(new URL(origin).host);
  if (isOwn) return;
  throw new HttpError(
    403,
    'Only the page of this queue may do that with the cookie of its sign-in. Others send a token, as "Authorization: Bearer <token>". A proxy in front must pass Host, or tell it in X-Forwarded-Host.',
    'origin_refused',
  );
}

/** Returns the id in a request's cookie, or null where it has none. */
function idIn(request: RequestHead): string | null {
  return cookieIn(request, COOKIES.overTls) ?? cookieIn(request, COOKIES.else);
}

/** Returns the value of one of a request's cookies; null: it has none of the name, or an empty one. */
export function cookieIn(request: RequestHead, name: string): string | null {
  const cookies = (request.headers.get('cookie') ?? '').split(/;\s*/).map((pair) => pair.split('='));
  return cookies.find(([own]) => own === name)?.[1] || null;
}

function cookieWith(request: RequestHead, id: string, basePath: string, seconds: number): string {
  const isTls = cameOverTls(request);
  const name = isTls && basePath === '/' ? COOKIES.overTls : COOKIES.else;
  const secure = isTls ? '; Secure' : '';
  return `${name}=${id}; Path=${basePath}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`;
}

/**
 * Returns whether a browser's request came over TLS. If a proxy misreports it, the browser refuses the cookie, and
 * nobody else is harmed.
 */
export function cameOverTls({ headers, url }: RequestHead): boolean {
  return /^https/.test(headers.get('x-forwarded-proto') ?? new URL(url).protocol);
}
