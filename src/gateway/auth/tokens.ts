import * as z from 'zod';
import type { TokenUse } from '../../fleet/rpc.ts';
import { type OidcBindings, personNow } from '../../settings/oidc.ts';
import { DEFAULT_QUEUE } from '../../settings/queue-settings.ts';
import { type EndedToken, endedTokens, TokenEntry } from '../../settings/token-entry.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import { callFleet } from '../objects/calls.ts';

/**
 * Reads tokens from their two sources: `TOKENS` or a token file, which the gateway is given, and the fleet object of
 * the default queue, which keeps those that were made with `POST /api/tokens`, and an entry for each person who has
 * signed in.
 */

export type TokenSources = Pick<Env, 'TOKENS' | 'objects' | keyof OidcBindings>;

/** The fleet object's list may be this many ms old: a revoked token is refused after that. */
const FRESH_MS = 1000;
/**
 * A token that is not on the list has it read again if the list is older than this, ms: another process may have made
 * the token since.
 */
const READ_AGAIN_MS = 100;
/** Uses of tokens are reported once in this many ms. */
const TELL_USES_MS = 60_000;

let parsed: { text: string; entries: TokenEntry[] } = { text: '', entries: [] };
/** The tokens as text, where they were replaced since this process was started; otherwise null. */
let replaced: string | null = null;

/**
 * Returns the tokens that are configured: those of `env.TOKENS`, unless they were replaced since.
 * @throws Error when the text is not what `worker-vllm token create` writes: better no service than an open one
 */
export function configuredTokens({ TOKENS: text }: Pick<Env, 'TOKENS'>): TokenEntry[] {
  const given = replaced ?? text ?? '';
  if (given !== parsed.text) {
    const entries = given.trim() ? z.array(TokenEntry).parse(JSON.parse(given)) : [];
    parsed = { text: given, entries };
  }
  return parsed.entries;
}

/**
 * Configures these tokens from now on. A queue that asks for tokens goes on to ask, also where none is left.
 * @param text as `env.TOKENS`
 * @returns the tokens from before whose connections and requests have to end
 * @throws Error as `configuredTokens`
 */
export function replaceTokens(text: string, env: Pick<Env, 'TOKENS'>): EndedToken[] {
  const before = configuredTokens(env);
  const entries = z.array(TokenEntry).parse(JSON.parse(text));
  replaced = text;
  parsed = { text, entries };
  return endedTokens(before, entries);
}

/** Returns whether no tokens were configured when this process was started: then only this machine is served. */
export function isOpen(env: Pick<Env, 'TOKENS'>): boolean {
  return replaced === null && configuredTokens(env).length === 0;
}

/** The entries that the fleet object keeps, as this gateway last read them. */
interface Kept {
  /** When it was read, epoch ms. */
  at: number;
  version: number | null;
  /** The entries of tokens. */
  tokens: TokenEntry[];
  /** The entries of people as they hold now, by subject. */
  people: ReadonlyMap<string, TokenEntry>;
}

let kept: Kept = { at: Number.NEGATIVE_INFINITY, version: null, tokens: [], people: new Map() };

/** The number of times that the list was forgotten: an answer to a call from before the last time is out of date. */
let changes = 0;

/** Forgets the list, since the gateway has changed the kept tokens. */
export function forgetKeptTokens(): void {
  changes += 1;
  kept.at = Number.NEGATIVE_INFINITY;
}

/**
 * Returns the tokens that the fleet object keeps, no older than a second and the time of a call. While one request
 * reads them again, the others use the list that was known.
 * @throws HttpError 503 where they were never read, and cannot be
 */
async function keptTokens(env: TokenSources, freshMs = FRESH_MS): Promise<Kept> {
  const now = Date.now();
  if (now - kept.at < freshMs) return kept;
  const [before, asked] = [kept, changes];
  // Other requests use the known list meanwhile, unless it is from before a change that was made here.
  if (before.version !== null && Number.isFinite(before.at)) kept = { ...before, at: now };
  try {
    const { version, entries } = await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.tokens(before.version));
    const at = asked === changes ? now : Number.NEGATIVE_INFINITY;
    kept = { ...before, at, version, ...(entries && sorted(entries, env)) };
  } catch (error) {
    if (before.version === null) throw error;
  }
  return kept;
}

/** Tells tokens from people, so that no token is compared with the entries of people. */
function sorted(entries: readonly TokenEntry[], env: TokenSources): Pick<Kept, 'tokens' | 'people'> {
  const people = entries.flatMap((entry) => personNow(entry, env) ?? []);
  return {
    tokens: entries.filter(({ oidc }) => !oidc),
    people: new Map(people.map((entry) => [entry.oidc!.subject, entry])),
  };
}

/** Returns all tokens, those of a file first, and people last. @throws HttpError as `keptTokens` */
export async function allTokens(env: TokenSources, freshMs = FRESH_MS): Promise<TokenEntry[]> {
  const { tokens, people } = await keptTokens(env, freshMs);
  return [...configuredTokens(env), ...tokens, ...people.values()];
}

/**
 * Returns the entry of a token or a person by its hash. It may have been made a moment ago through another process.
 * @throws HttpError as `keptTokens`
 */
export async function entryByHash(sha256: string, env: TokenSources): Promise<TokenEntry | undefined> {
  const find = (entries: readonly TokenEntry[]) => entries.find((entry) => entry.sha256 === sha256);
  return find(await allTokens(env)) ?? find(await allTokens(env, READ_AGAIN_MS));
}

/** Returns a kept entry as it holds now: with the rule of a person's group, if there is one. */
export function asItHolds(entry: TokenEntry, env: OidcBindings): TokenEntry {
  return personNow(entry, env) ?? entry;
}

/** Returns the entry of a person as it holds now. @throws HttpError as `keptTokens` */
export async function entryOfPerson(subject: string, env: TokenSources): Promise<TokenEntry | undefined> {
  return (await keptTokens(env)).people.get(subject);
}

/**
 * Returns the entry now of the token that a connection was opened with; undefined where it is not good any more, null
 * where there were no tokens.
 */
export async function entryNow(
  caller: TokenEntry | null,
  env: TokenSources,
): Promise<TokenEntry | null | undefined> {
  if (caller === null) return null;
  // A socket or stream that a person's JWT opened ends with the JWT.
  if (caller.oidc && hasExpired(caller)) return undefined;
  const found = (await allTokens(env)).find(({ sha256 }) => sha256 === caller.sha256);
  return found && !hasExpired(found) ? found : undefined;
}

/**
 * Returns the entry of a token. The token is compared with every entry, each in constant time, so that the time taken
 * tells nothing.
 * @throws HttpError 401
 */
export async function entryOfToken(token: string, env: TokenSources): Promise<TokenEntry> {
  const hex = await sha256Of(token);
  const entry =
    matching(hex, configuredTokens(env)) ??
    matching(hex, (await keptTokens(env)).tokens) ??
    matching(hex, (await keptTokens(env, READ_AGAIN_MS)).tokens);
  if (!entry) {
    const message = 'This token is not known here. Make one with "npx worker-vllm token create".';
    throw new HttpError(401, message, 'token_unknown');
  }
  if (hasExpired(entry)) {
    const message = `The token "${entry.name}" has expired (${entry.expires_at}). Ask for a new one.`;
    throw new HttpError(401, message, 'token_expired');
  }
  await noteUse(entry, env);
  return entry;
}

function matching(hex: string, entries: readonly TokenEntry[]): TokenEntry | undefined {
  let found: TokenEntry | undefined;
  for (const entry of entries) {
    if (equalInConstantTime(hex, entry.sha256)) found ??= entry;
  }
  return found;
}

export function hasExpired({ expires_at }: TokenEntry): boolean {
  return expires_at !== undefined && Date.parse(expires_at) <= Date.now();
}

/** The uses that are not reported to the fleet object yet: epoch ms by the token's hash. */
const uses = new Map<string, number>();
let toldAt = 0;

/** Notes that a token, or a person, was here. */
export async function noteUse({ sha256 }: TokenEntry, env: TokenSources): Promise<void> {
  uses.set(sha256, Date.now());
  // No request fails for this; a use that cannot be reported now goes with the next.
  if (Date.now() - toldAt >= TELL_USES_MS) await tellUses(env).catch(() => {});
}

/** The configured tokens that were last reported to the audit. */
let audited: TokenEntry[] = [];

/**
 * Reports the configured tokens to the audit if they have changed since the last report.
 * @throws HttpError as `callFleet`
 */
export async function auditConfiguredTokens(env: TokenSources): Promise<void> {
  const before = audited;
  const entries = configuredTokens(env);
  if (entries === before) return;
  audited = entries;
  try {
    await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.auditFileTokens(entries));
  } catch (error) {
    audited = before;
    throw error;
  }
}

/** Reports the uses of tokens to the fleet object. @returns when each token was last used, epoch ms by its hash */
export async function tellUses(env: TokenSources): Promise<Record<string, number>> {
  toldAt = Date.now();
  await auditConfiguredTokens(env);
  const told: TokenUse[] = [...uses].map(([sha256, at]) => ({ sha256, at }));
  const all = await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.tokenUses(told));
  for (const { sha256, at } of told) if (uses.get(sha256) === at) uses.delete(sha256);
  return all;
}

/** Returns a random token with the prefix of this project's tokens. */
export function randomToken(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const base64 = btoa(String.fromCharCode(...bytes));
  return `wv_${base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}`;
}

/** Returns a text's SHA-256 in lower-case hex. */
export async function sha256Of(text: string): Promise<string> {
  return hexOf(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))));
}

export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns whether two texts are the same; the time it takes tells nothing but their lengths. */
export function equalInConstantTime(one: string, other: string): boolean {
  let difference = one.length ^ other.length;
  for (let i = 0; i < one.length; i++) difference |= one.charCodeAt(i) ^ other.charCodeAt(i);
  return difference === 0;
}

/** The gateway looks a token up every so many ms while what it opened lasts; the list of tokens may be that old. */
const EVERY_MS = 1000;

/**
 * Watches the token of a long poll or a socket, until the returned function is called. The queue itself ends the
 * requests and the workers of a token; with this the gateway ends what it holds for a caller.
 * @param over called once, when the token was revoked or rotated, has expired, or may not do any more what it opened
 * @param denialOf returns why a token may not do that now, or null
 * @returns a function that stops watching
 */
export function watchToken(
  caller: TokenEntry | null,
  env: TokenSources,
  over: (error: HttpError) => void,
  denialOf: (entry: TokenEntry) => HttpError | null = () => null,
): () => void {
  if (caller === null) return () => {};
  let isStopped = false;
  const look = async () => {
    // While the list cannot be read, the token counts as unchanged.
    const entry = await entryNow(caller, env).catch(() => null);
    if (isStopped) return;
    const problem = entry === undefined ? goneError(caller) : entry && denialOf(entry);
    if (problem === null) timer = setTimeout(look, EVERY_MS);
    else over(problem);
  };
  let timer = setTimeout(look, EVERY_MS);
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}

function goneError({ name }: TokenEntry): HttpError {
  const message = `The token "${name}" was revoked, rotated or expired while this was open.`;
  return new HttpError(401, message, 'token_unknown');
}

/**
 * Waits for a promise as long as the caller's token is good.
 * @throws HttpError 401 as soon as the token is not
 */
export async function whileGood<T>(
  caller: TokenEntry | null,
  env: TokenSources,
  awaited: Promise<T>,
): Promise<T> {
  let stop = () => {};
  const over = new Promise<never>((_, reject) => {
    stop = watchToken(caller, env, reject);
  });
  return await Promise.race([awaited, over]).finally(() => stop());
}

/** Returns a response whose body breaks off when its caller's token is not good any more. */
export function endsWithToken(caller: TokenEntry | null, env: TokenSources, response: Response): Response {
  if (caller === null || response.body === null) return response;
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const cut = new AbortController();
  const stop = watchToken(caller, env, (error) => cut.abort(error));
  void response.body
    .pipeTo(writable, { signal: cut.signal })
    .catch(() => {})
    .finally(stop);
  return new Response(readable, response);
}
