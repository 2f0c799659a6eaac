import { isRetryableStatus, limits } from '../protocol/index.ts';
import { finalFailure, JobFailure } from './failure.ts';
import { addressOf, type FileAccess } from './file-access.ts';
import type { World } from './world.ts';

const DOWNLOAD_WITHIN_MS = 30_000;
/** Before a download is tried again, ms; doubles. */
const FIRST_PAUSE_MS = 1000;
const UPLOAD_WITHIN_MS = 60_000;
const MOST_REDIRECTS = 5;
/** Those that repeat the request as it was. */
const REDIRECTS = new Set([301, 302, 307, 308]);

/** Nothing that another try would change. */
class FinalTrouble extends Error {}

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
  const timer = clock.setTimeout(
    () => limit.abort(new Error(`no answer within ${Math.ceil(ms / 1000)} s`)),
    ms,
  );
  try {
    return await run(outer ? AbortSignal.any([outer, limit.signal]) : limit.signal);
  } finally {
    clock.clearTimeout(timer);
  }
}

/**
 * The payload that was too large for a frame. A broken connection or an overloaded server is tried again while
 * there is time: it says nothing of the job.
 * @throws JobFailure `payload_unreachable` with the reason; a job never runs empty
 */
export async function downloadPayload(
  web: Web,
  access: FileAccess,
  url: string,
  signal: AbortSignal,
): Promise<unknown> {
  const { clock } = web;
  const endsAt = clock.now() + DOWNLOAD_WITHIN_MS;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
    try {
      const get = (limit: AbortSignal) => getText(web, access, url, limit);
      return JSON.parse(await withinMs(clock, endsAt - clock.now(), get, signal));
    } catch (error) {
      const message = `the payload could not be fetched: ${reasonOf(error)}`;
      if (isFinal(error)) throw finalFailure('payload_unreachable', message);
      if (clock.now() + pauseMs >= endsAt) {
        throw new JobFailure({ message, code: 'payload_unreachable', retryable: true });
      }
      await pause(clock, pauseMs, signal);
      if (signal.aborted) throw finalFailure('payload_unreachable', message);
    }
  }
}

function isFinal(error: unknown): boolean {
  return error instanceof FinalTrouble || error instanceof JobFailure || error instanceof SyntaxError;
}

/** Ends early when the signal fires. */
function pause(clock: World['clock'], ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clock.clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = clock.setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
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
    if (signal.aborted) return false;
    world.log.warn({ problem: reasonOf(error) }, 'the upload of a result failed; sending it in a frame');
  }
  return false;
}

/**
 * Collects a body.
 * @param arrived told at every piece
 * @throws JobFailure `too_large`
 */
export async function readWhole(body: AsyncIterable<Uint8Array>, arrived?: () => void): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body) {
    arrived?.();
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
    const message = `HTTP ${response.status}`;
    throw isRetryableStatus(response.status) ? new Error(message) : new FinalTrouble(message);
  }
  return response.body ? (await readWhole(response.body)).toString() : '';
}

/**
 * Follows redirects itself: each address on the way must be allowed, and the token goes to our own only.
 * @throws FinalTrouble when an address is not allowed, or there are too many
 */
async function fetchAllowed(
  web: Web,
  access: FileAccess,
  url: string,
  init: RequestInit & { headers?: Record<string, string> },
): Promise<Response> {
  let address = addressOf(url, access);
  for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
    if (!address.ok) throw new FinalTrouble(address.problem);
    const authorization = address.token ? { authorization: `Bearer ${address.token}` } : {};
    const headers = { ...init.headers, ...authorization };
    const response = await web.fetch(address.url.href, { ...init, headers, redirect: 'manual' });
    const location = response.headers.get('location');
    if (!REDIRECTS.has(response.status) || location === null) return response;
    await response.body?.cancel();
    address = addressOf(location, access, address.url.href);
  }
  throw new FinalTrouble(`more than ${MOST_REDIRECTS} redirects`);
}

/** What went wrong, for people: `fetch` hides the reason in its cause. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? error.cause.message : '';
  return cause || error.message;
}
