import * as z from 'zod';
import { isLoopback } from '../process/network.ts';
import { dialectOf, matchesPattern } from '../protocol/index.ts';
import type { Viewer } from '../queue/rpc.ts';
import { readToken } from '../scheduler/token.ts';
import type { Scope } from '../settings/scopes.ts';
import { TokenEntry } from '../settings/token-entry.ts';
import type { Env } from './env.ts';
import { HttpError } from './errors.ts';
import { callFleet, mayBeQueue } from './objects.ts';
import { entryOfCookie, sha256Of } from './sign-in.ts';

let parsed: { text: string; entries: TokenEntry[] } = { text: '', entries: [] };
/** The tokens as text, where they were replaced since this process was started; null: they were not. */
let replaced: string | null = null;

/**
 * The tokens that are configured: those of `env.TOKENS`, unless they were replaced since.
 * @throws Error when the text is not what `worker-vllm token` writes: better no service than an open one
 */
export function readTokens(text: string | undefined): TokenEntry[] {
  const given = replaced ?? text ?? '';
  if (given !== parsed.text) {
    const entries = given.trim() ? z.array(TokenEntry).parse(JSON.parse(given)) : [];
    parsed = { text: given, entries };
  }
  return parsed.entries;
}

/**
 * From now on these are configured. A queue that asks for tokens goes on to ask, also where none is left.
 * @param text as `env.TOKENS`
 * @returns whether one of those before is not among them, or may do other things
 * @throws Error as `readTokens`
 */
export function replaceTokens(text: string, env: Pick<Env, 'TOKENS'>): boolean {
  const before = readTokens(env.TOKENS);
  const entries = z.array(TokenEntry).parse(JSON.parse(text));
  const known = new Set(entries.map((entry) => JSON.stringify(entry)));
  replaced = text;
  parsed = { text, entries };
  return before.some((entry) => !known.has(JSON.stringify(entry)));
}

/** No tokens were configured when this process was started: only this machine is served. */
export function isOpen(env: Pick<Env, 'TOKENS'>): boolean {
  return replaced === null && readTokens(env.TOKENS).length === 0;
}

/** Whether what a connection was opened with is still configured. */
export function isConfigured(caller: TokenEntry | null, env: Pick<Env, 'TOKENS'>): boolean {
  return caller === null || readTokens(env.TOKENS).some(({ sha256 }) => sha256 === caller.sha256);
}

/** Bindings that say who may do what. */
export type AuthSettings = Pick<Env, 'TOKENS' | 'LOCAL_HOSTS' | 'FLEET' | 'QUEUE_IDS'>;

/**
 * Who asks: the entry of a token. A page that was signed in with it adds the hash of the sign-in's id; a worker that the
 * scheduler launched adds the one queue and pool that its token is for.
 */
export type Caller = TokenEntry & { signed_in?: string; queue_id?: string; config_id?: string };

/**
 * Lets a request through that may do what `anyOf` names, by its token or by the cookie of a page that was signed in
 * with one. A token goes before a cookie.
 * @returns the token's entry; null where no tokens are configured
 * @throws HttpError 401 for a missing or unknown token, 403 for one without the scope, 403 for a change that another
 *   page than ours asks for with our cookie, and 403 where no tokens are configured and the request comes from
 *   elsewhere than this machine
 */
export async function authorize(
  request: Request,
  env: AuthSettings,
  anyOf: readonly Scope[],
): Promise<Caller | null> {
  if (isOpen(env)) {
    rejectStrangers(request, env.LOCAL_HOSTS);
    return null;
  }
  const tokens = readTokens(env.TOKENS);
  const token = tokenIn(request);
  const entry: Caller | null =
    token === undefined
      ? await entryOfCookie(request, env, tokens)
      : ((await entryOfLaunch(token, env)) ?? (await entryOfToken(token, tokens)));
  if (entry === null) {
    throw new HttpError(
      401,
      'This queue asks for a token: send it as "Authorization: Bearer <token>", or as "X-Api-Key"; or sign in on its page.',
      'token_missing',
    );
  }
  if (!entry.scopes.some((scope) => scope === 'admin' || anyOf.includes(scope))) {
    throw new HttpError(
      403,
      `The token "${entry.name}" has the scope ${entry.scopes.join(', ')}; this route asks for ${anyOf.join(' or ')}.`,
      'scope_missing',
    );
  }
  return entry;
}

/** Also bare on RunPod's routes, as its documentation sends the key, and in the header of Anthropic's clients. */
function tokenIn(request: Request): string | undefined {
  const isRunpod = dialectOf(new URL(request.url).pathname) === 'runpod';
  const form = isRunpod ? /^(?:Bearer\s+)?(\S+)\s*$/i : /^Bearer\s+(\S+)\s*$/i;
  const { headers } = request;
  return form.exec(headers.get('authorization') ?? '')?.[1] ?? headers.get('x-api-key') ?? undefined;
}

/** Whose jobs a token submits; null where no tokens are configured. */
export function tenantOf(entry: TokenEntry | null): string | null {
  return entry && (entry.tenant ?? entry.name);
}

/** For whom a token submits: what a job remembers of it. */
export function submitterOf(entry: TokenEntry | null): { tenant: string | null; token_name: string | null } {
  return { tenant: tenantOf(entry), token_name: entry?.name ?? null };
}

/** Whose jobs a token sees: with `read` or `admin`, or without tokens, everybody's. */
export function viewerOf(entry: TokenEntry | null): Viewer {
  const seesAll = entry?.scopes.some((scope) => scope === 'read' || scope === 'admin') ?? true;
  return seesAll ? null : tenantOf(entry);
}

/** Nobody: no tenant has an empty name. */
const NOBODY = '';

/**
 * Whose payloads and results a caller may read, which is less than whose jobs it sees: prompts are private. With
 * `submit` its tenant's; with `admin`, or without tokens, everybody's, on the page only where QUEUE_SHOW_PAYLOADS is
 * set. `read` alone shows nobody's.
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
    `The token "${entry?.name}" is for workers named "${pattern}", not ${JSON.stringify(workerId)}: set CASOLA_INSTANCE_ID, or make a token for this worker ("npx worker-vllm token --scope worker --worker-id ...").`,
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
 * The worker that a token was made for when it was launched; null: it is no such token.
 * @throws HttpError 401 where its launch has ended
 */
async function entryOfLaunch(token: string, env: AuthSettings): Promise<Caller | null> {
  const claimed = readToken(token);
  if (claimed === null) return null;
  const { queue_id, launch_id } = claimed;
  // What anybody can make up must not make an object.
  const worker = mayBeQueue(env, queue_id)
    ? await callFleet(env, queue_id, (fleet) => fleet.workerOfToken(token))
    : null;
  if (worker) {
    return { name: `launch ${launch_id}`, sha256: '', scopes: ['worker'], ...worker, queue_id };
  }
  throw new HttpError(
    401,
    'This token was made for a worker whose launch has ended, or not here.',
    'token_unknown',
  );
}

/** Whether `authorize` would let it through. */
export async function isAuthorized(
  request: Request,
  env: AuthSettings,
  anyOf: readonly Scope[],
): Promise<boolean> {
  return authorize(request, env, anyOf).then(
    () => true,
    () => false,
  );
}

/**
 * Compares with every entry, each in constant time, so that the time taken tells nothing.
 * @throws HttpError 401
 */
export async function entryOfToken(token: string, tokens: readonly TokenEntry[]): Promise<TokenEntry> {
  const hex = await sha256Of(token);
  let found: TokenEntry | undefined;
  for (const entry of tokens) {
    if (equalInConstantTime(hex, entry.sha256)) found ??= entry;
  }
  if (found) return found;
  throw new HttpError(
    401,
    'This token is not known here. Make one with "npx worker-vllm token".',
    'token_unknown',
  );
}

/** Whether two texts are the same; the time it takes tells nothing but their lengths. */
export function equalInConstantTime(one: string, other: string): boolean {
  let difference = one.length ^ other.length;
  for (let i = 0; i < one.length; i++) difference |= one.charCodeAt(i) ^ other.charCodeAt(i);
  return difference === 0;
}

/** Headers that proxies add to requests that they pass on. Not all do: docs/security.md. */
const FORWARDED_HEADERS = [
  'x-forwarded-for',
  'forwarded',
  'x-real-ip',
  'x-forwarded-host',
  'x-forwarded-proto',
  'via',
];

/**
 * Without tokens only this machine is served. A proxy on this machine would bring everybody else. The host is checked
 * against pages that make their own name point to this machine, the origin against pages that simply call it.
 * @param localHosts more names of this machine, comma-separated
 * @throws HttpError 403
 */
export function rejectStrangers({ url, headers }: Request, localHosts = ''): void {
  const host = new URL(url).hostname;
  // Systems connect 0.0.0.0 to their loopback.
  const isHere =
    isLoopback(host) || host === '0.0.0.0' || localHosts.split(',').some((name) => name.trim() === host);
  if (!isHere) {
    throw new HttpError(
      403,
      `No tokens are configured, so only this machine is served, not "${host}". Make one with "npx worker-vllm token", or, if that is a name of this machine, list it in QUEUE_LOCAL_HOSTS.`,
      'tokens_needed',
    );
  }
  const forwarded = FORWARDED_HEADERS.find((name) => headers.has(name));
  if (forwarded !== undefined) {
    throw new HttpError(
      403,
      `No tokens are configured, so only this machine is served, and a proxy passed this request on (${forwarded}). Make tokens with "npx worker-vllm token" before others can reach it.`,
      'tokens_needed',
    );
  }
  const origin = headers.get('origin');
  if (origin && !(URL.canParse(origin) && isLoopback(new URL(origin).hostname))) {
    throw new HttpError(403, `Web pages of ${origin} may not use a queue without tokens.`, 'origin_refused');
  }
}
