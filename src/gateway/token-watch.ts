import type { TokenEntry } from '../settings/token-entry.ts';
import { HttpError } from './errors.ts';
import { entryNow, type TokenSources } from './tokens.ts';

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
