import { limits } from '../protocol/index.ts';
import { finalFailure } from './failure.ts';
import { addressOf, type FileAccess } from './file-access.ts';
import type { World } from './world.ts';

const DOWNLOAD_WITHIN_MS = 30_000;
const UPLOAD_WITHIN_MS = 60_000;
const MOST_REDIRECTS = 5;
/** Those that repeat the request as it was. */
const REDIRECTS = new Set([301, 302, 307, 308]);

type Web = Pick<World, 'clock' | 'fetch'>;

/**
 * One HTTP exchange with a time limit.
 * @throws whatever `run` throws; an Error that says so when the limit ends it
 */
export async function withinMs<T>(
  clock: World['clock'],
  ms: number,
  run: (signal: AbortSignal) => Promise<T>,
  outer?: AbortSignal,
): Promise<T> {
  const limit = new AbortController();
  const timer = clock.setTimeout(() => limit.abort(new Error(`no answer within ${ms / 1000} s`)), ms);
  try {
    return await run(outer ? AbortSignal.any([outer, limit.signal]) : limit.signal);
  } finally {
    clock.clearTimeout(timer);
  }
}

/**
 * The payload that was too large for a frame.
 * @throws JobFailure `payload_unreachable` with the reason; a job never runs empty
 */
export async function downloadPayload(
  web: Web,
  access: FileAccess,
  url: string,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    const text = await withinMs(
      web.clock,
      DOWNLOAD_WITHIN_MS,
      (limit) => getText(web, access, url, limit),
      signal,
    );
    return JSON.parse(text);
  } catch (error) {
    throw finalFailure('payload_unreachable', `the payload could not be fetched: ${reasonOf(error)}`);
  }
}

/** PUTs a result; false, with a line in the log, when it did not arrive. */
export async function uploadResult(
  world: Web & Pick<World, 'log'>,
  access: FileAccess,
  url: string,
  text: string,
  signal: AbortSignal,
): Promise<boolean> {
  const init = { method: 'PUT', headers: { 'content-type': 'application/json' }, body: text };
  try {
    const response = await withinMs(
      world.clock,
      UPLOAD_WITHIN_MS,
      (limit) => fetchAllowed(world, access, url, { ...init, signal: limit }),
      signal,
    );
    await response.body?.cancel();
    if (response.ok) return true;
    world.log.warn({ status: response.status }, 'the upload of a result was refused; sending it in a frame');
  } catch (error) {
    world.log.warn({ problem: reasonOf(error) }, 'the upload of a result failed; sending it in a frame');
  }
  return false;
}

/** Collects a body. @throws JobFailure `too_large` */
export async function readWhole(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.byteLength;
    if (bytes > limits.PAYLOAD_BYTES) {
      throw finalFailure('too_large', `more than ${limits.PAYLOAD_BYTES} bytes`);
    }
    pieces.push(piece);
  }
  return pieces.length === 1 ? Buffer.from(pieces[0]!) : Buffer.concat(pieces, bytes);
}

async function getText(web: Web, access: FileAccess, url: string, signal: AbortSignal): Promise<string> {
  const response = await fetchAllowed(web, access, url, { signal });
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`HTTP ${response.status}`);
  }
  return response.body ? (await readWhole(response.body)).toString() : '';
}

/**
 * Follows redirects itself: each address on the way must be allowed, and the token goes to our own only.
 * @throws Error when an address is not allowed, or there are too many
 */
async function fetchAllowed(
  web: Web,
  access: FileAccess,
  url: string,
  init: RequestInit & { headers?: Record<string, string> },
): Promise<Response> {
  let address = addressOf(url, access);
  for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
    if (!address.ok) throw new Error(address.problem);
    const authorization = address.token ? { authorization: `Bearer ${address.token}` } : {};
    const headers = { ...init.headers, ...authorization };
    const response = await web.fetch(address.url.href, { ...init, headers, redirect: 'manual' });
    const location = response.headers.get('location');
    if (!REDIRECTS.has(response.status) || location === null) return response;
    await response.body?.cancel();
    address = addressOf(location, access, address.url.href);
  }
  throw new Error(`more than ${MOST_REDIRECTS} redirects`);
}

/** What went wrong, for people: `fetch` hides the reason in its cause. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? error.cause.message : '';
  return cause || error.message;
}
