import { isLoopback } from '../../process/network.ts';
import { dialectOf, matchesPattern } from '../../protocol/index.ts';
import type { Viewer } from '../../queue/rpc.ts';
import type { LaunchedWorker } from '../../scheduler/rpc.ts';
import { readToken } from '../../scheduler/token.ts';
import type { Scope, TokenEntry } from '../../settings/token-entry.ts';
import { addressOf } from '../address.ts';
import type { AuthSettings, Env, RequestHead } from '../env.ts';
import { HttpError } from '../errors.ts';
import { callFleet } from '../objects/calls.ts';
import { mayBeQueue } from '../objects/ids.ts';
import { credentialFor } from './credentials.ts';
import { routeProblem } from './permissions.ts';
import { entryOfCookie } from './sign-in.ts';
import { entryOfToken, isOpen } from './tokens.ts';

/**
 * The caller as its token's entry. A page that was signed in with the token adds the hash of the sign-in's id; a
 * worker that the scheduler launched adds the one queue and pool that its token is for, and the price of its machine.
 */
export type Caller = TokenEntry & { signed_in?: string; queue_id?: string } & Partial<
    Pick<LaunchedWorker, 'config_id' | 'price_per_hour'>
  >;

/**
 * Lets a request through if its token, or the cookie of a signed-in page, has one of the scopes `anyOf`. A token goes
 * before a cookie.
 * @returns the token's entry; null where no tokens are configured
 * @throws HttpError 401 for a missing, unknown or expired token; 403 for one without the scope or for other routes,
 * for a change that another page than ours requests with our cookie, and where no tokens are configured and the
 * request comes from elsewhere than this machine
 */
export async function authorize(
  request: RequestHead,
  env: AuthSettings,
  anyOf: readonly Scope[],
): Promise<Caller | null> {
  if (isOpen(env)) {
    rejectStrangers(request, env.LOCAL_HOSTS);
    return null;
  }
  const token = tokenIn(request);
  const entry: Caller | null =
    token === undefined
      ? await entryOfCookie(request, env)
      : ((await entryOfLaunch(token, env)) ??
        (await (credentialFor(token, env)?.entryOf(token, env) ?? entryOfToken(token, env))));
  if (entry === null) {
    throw new HttpError(
      401,
      'This queue asks for a token: send it as "Authorization: Bearer <token>", or as "X-Api-Key" or "Api-Key"; or sign in on its page.',
      'token_missing',
    );
  }
  const denied = denialOf(entry, anyOf, addressOf(request).pathname);
  if (denied) throw denied;
  return entry;
}

/** Returns the error 403 that says why a token may not request a path that needs one of these scopes, or null. */
export function denialOf(
  { name, scopes, routes }: TokenEntry,
  anyOf: readonly Scope[],
  path: string,
): HttpError | null {
  if (scopes.some((scope) => scope === 'admin' || anyOf.includes(scope)))
    return routeProblem(path, { name, routes: routes ?? null }) ?? null;
  const message = `The token "${name}" has the scope ${scopes.join(', ')}; this route asks for ${anyOf.join(' or ')}.`;
  return new HttpError(403, message, 'scope_missing');
}

/**
 * Headers in which other clients than OpenAI's send their key: X-Api-Key for Anthropic's, Api-Key for Azure OpenAI's.
 */
const KEY_HEADERS = ['x-api-key', 'api-key'];

/** Returns the token of a request. On RunPod's routes it may lack `Bearer`, as in RunPod's documentation. */
function tokenIn(request: RequestHead): string | undefined {
  const isRunpod = dialectOf(addressOf(request).pathname) === 'runpod';
  const form = isRunpod ? /^(?:Bearer\s+)?(\S+)\s*$/i : /^Bearer\s+(\S+)\s*$/i;
  const { headers } = request;
  const bearer = form.exec(headers.get('authorization') ?? '')?.[1];
  return bearer ?? KEY_HEADERS.map((name) => headers.get(name)).find(Boolean) ?? undefined;
}

/** Returns the tenant whose jobs a token submits; null where no tokens are configured. */
export function tenantOf(entry: TokenEntry | null): string | null {
  return entry && (entry.tenant ?? entry.name);
}

/** Returns what a job remembers of the token that submitted it. */
export function submitterOf(entry: TokenEntry | null): { tenant: string | null; token_name: string | null } {
  return { tenant: tenantOf(entry), token_name: entry?.name ?? null };
}

/** Returns the tenant whose jobs a token sees; null for everybody's: with `read` or `admin`, or without tokens. */
export function viewerOf(entry: TokenEntry | null): Viewer {
  const seesAll = entry?.scopes.some((scope) => scope === 'read' || scope === 'admin') ?? true;
  return seesAll ? null : tenantOf(entry);
}

/** The reader of nobody's contents: no tenant has an empty name. */
const NOBODY = '';

/**
 * Returns the tenant whose payloads and results a caller may read; null for everybody's. They are fewer than the jobs
 * it sees, since prompts are private. With `submit` a caller reads its own tenant's; with `admin`, or without tokens,
 * everybody's, though on the page only if QUEUE_SHOW_PAYLOADS is set; with `read` alone nobody's.
 */
export function readerOf(entry: Caller | null, { SHOW_PAYLOADS }: Pick<Env, 'SHOW_PAYLOADS'>): Viewer {
  if (entry === null) return null;
  const isAdmin = entry.scopes.includes('admin');
  if (isAdmin && (!entry.signed_in || SHOW_PAYLOADS === '1')) return null;
  return isAdmin || entry.scopes.includes('submit') ? tenantOf(entry) : NOBODY;
}

/** @throws HttpError 403 where the token is bound to other worker ids */
export function requireWorkerId(entry: TokenEntry | null, workerId: string): void {
  const pattern = entry?.worker_id;
  if (pattern === undefined || matchesPattern(pattern, workerId)) return;
  throw new HttpError(
    403,
    `The token "${entry?.name}" is for workers named "${pattern}", not ${JSON.stringify(workerId)}: set CASOLA_INSTANCE_ID, or make a token for this worker ("npx worker-vllm token create --scope worker --worker-id ...").`,
    'worker_id_denied',
  );
}

/** @throws HttpError 403 where the token is of a worker that was launched for another queue */
export function requireQueueId(entry: Caller | null, queueId: string): void {
  if (entry?.queue_id === undefined || entry.queue_id === queueId) return;
  throw new HttpError(
    403,
    `The token "${entry.name}" is for the queue ${JSON.stringify(entry.queue_id)}, not ${JSON.stringify(queueId)}.`,
    'queue_id_denied',
  );
}

/**
 * Returns the worker that a token was made for when it was launched, or null for any other token.
 * @throws HttpError 401 where the worker's launch has ended
 */
async function entryOfLaunch(token: string, env: AuthSettings): Promise<Caller | null> {
  const claimed = readToken(token);
  if (claimed === null) return null;
  const { queue_id, launch_id } = claimed;
  const worker = await launchedWith(token, env);
  if (worker) {
    return { name: `launch ${launch_id}`, sha256: '', scopes: ['worker'], ...worker, queue_id };
  }
  throw new HttpError(
    401,
    'This token was made for a worker whose launch has ended, or not here.',
    'token_unknown',
  );
}

/**
 * Returns the price of a launched worker's machine, US dollars an hour, also where no tokens are configured; null
 * where it is unknown.
 */
export async function priceOfLaunch(
  request: RequestHead,
  env: AuthSettings,
  entry: Caller | null,
): Promise<number | null> {
  if (entry !== null) return entry.price_per_hour ?? null;
  const worker = await launchedWith(tokenIn(request) ?? '', env);
  return worker?.price_per_hour ?? null;
}

async function launchedWith(token: string, env: AuthSettings): Promise<LaunchedWorker | null> {
  const queueId = readToken(token)?.queue_id;
  // An id that a caller made up must not create an object.
  if (queueId === undefined || !mayBeQueue(env, queueId)) return null;
  return await callFleet(env, queueId, (fleet) => fleet.workerOfToken(token));
}

/** Returns whether `authorize` would let the request through. */
export async function isAuthorized(
  request: RequestHead,
  env: AuthSettings,
  anyOf: readonly Scope[],
): Promise<boolean> {
  return authorize(request, env, anyOf).then(
    () => true,
    () => false,
  );
}

/** Headers that proxies add to the requests they pass on. Not all proxies do: docs/security.md. */
const FORWARDED_HEADERS = [
  'x-forwarded-for',
  'forwarded',
  'x-real-ip',
  'x-forwarded-host',
  'x-forwarded-proto',
  'via',
];

/**
 * Rejects requests from elsewhere. Without tokens the gateway serves this machine only, and refuses what a proxy on it
 * passes on for others. It checks the host against pages that make their own name point to this machine, and the
 * origin against pages that simply call it.
 * @param localHosts more names of this machine, comma-separated
 * @throws HttpError 403
 */
export function rejectStrangers(request: RequestHead, localHosts = ''): void {
  const { headers } = request;
  const host = addressOf(request).hostname;
  // Operating systems connect 0.0.0.0 to their loopback.
  const isHere =
    isLoopback(host) || host === '0.0.0.0' || localHosts.split(',').some((name) => name.trim() === host);
  if (!isHere) {
    throw new HttpError(
      403,
      `No tokens are configured, so only this machine is served, not "${host}". Make one with "npx worker-vllm token create" and start the queue again, or, if that is a name of this machine, list it in QUEUE_LOCAL_HOSTS.`,
      'tokens_needed',
    );
  }
  const forwarded = FORWARDED_HEADERS.find((name) => headers.has(name));
  if (forwarded !== undefined) {
    throw new HttpError(
      403,
      `No tokens are configured, so only this machine is served, and a proxy passed this request on (${forwarded}). Make tokens with "npx worker-vllm token create" and start the queue again, before others can reach it.`,
      'tokens_needed',
    );
  }
  const origin = headers.get('origin');
  if (origin && !(URL.canParse(origin) && isLoopback(new URL(origin).hostname))) {
    throw new HttpError(403, `Web pages of ${origin} may not use a queue without tokens.`, 'origin_refused');
  }
}
