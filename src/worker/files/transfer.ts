import { type AnswerBody, readPieces } from '../../engine/client/types.ts';
import { withRetries, withTimeout } from '../../process/clock.ts';
import { HttpStatusError, isTransient, reasonOf } from '../../process/http.ts';
import { PrivateAddressError } from '../../process/public-addresses.ts';
import { bounds, JsonFault, keepTree, utf8Text, withoutMark } from '../../protocol/index.ts';
import { JobFailure } from '../failure.ts';
import type { Ports } from '../ports.ts';
import { addressOf, type FileAccess } from './file-access.ts';

/** The ways to reach files; files that others named are fetched with `fetchPublic`. */
type Web = Pick<Ports, 'clock' | 'fetch' | 'fetchPublic'>;

const DOWNLOAD_WITHIN_MS = 30_000;
/**
 * A server that has not begun its answer after this many ms is asked again: a connection that died in silence never
 * answers.
 */
const BEGUN_WITHIN_MS = 10_000;
/** The pause before the first retry of a download or an upload, ms; it doubles. */
const FIRST_PAUSE_MS = 1000;
const UPLOAD_WITHIN_MS = 60_000;
/**
 * The number of tries of an upload. A result that cannot be uploaded soon goes in a frame: more tries would only delay
 * it.
 */
const UPLOAD_TRIES = 3;
const MOST_REDIRECTS = 5;
/** Statuses of redirects that repeat the request unchanged. */
const REDIRECTS = new Set([301, 302, 307, 308]);

/** A failure that another try would not change. */
class FinalError extends Error {}

/**
 * Downloads a payload that was too large for a frame.
 * @throws JobFailure `payload_unreachable` with the reason; a job never runs empty
 */
export async function downloadPayload(
  web: Web,
  access: FileAccess,
  url: string,
  signal: AbortSignal,
): Promise<unknown> {
  return await download(web, 'the payload', signal, async (limit) => {
    const { bytes } = await getFile(web, access, url, limit);
    const payload: unknown = JSON.parse(utf8Text(bytes));
    keepTree(payload, withoutMark(bytes), 2);
    return payload;
  });
}

export interface DownloadedFile {
  bytes: Buffer;
  /** The content type that the server named; empty if it named none. */
  contentType: string;
}

/**
 * Downloads a file that a payload names, from a host that payloads may come from.
 * @throws JobFailure `payload_unreachable` with the reason
 */
export async function downloadFile(
  web: Web,
  access: FileAccess,
  url: string,
  signal: AbortSignal,
): Promise<DownloadedFile> {
  const what = 'a file that the payload names';
  return await download(web, what, signal, (limit) => getFile(web, access, url, limit));
}

/** Downloads with retries while there is time: a broken connection or an overloaded server is no fault of the job. */
async function download<T>(
  web: Web,
  what: string,
  signal: AbortSignal,
  get: (limit: AbortSignal) => Promise<T>,
): Promise<T> {
  const policy = {
    clock: web.clock,
    limitMs: DOWNLOAD_WITHIN_MS,
    firstPauseMs: FIRST_PAUSE_MS,
    mayPass,
    signal,
  };
  try {
    return await withRetries(policy, get);
  } catch (error) {
    const message = `${what} could not be fetched: ${reasonOf(error)}`;
    const retryable = !signal.aborted && mayPass(error);
    throw new JobFailure({ message, code: 'payload_unreachable', retryable });
  }
}

function mayPass(error: unknown): boolean {
  const isFinal = error instanceof FinalError || error instanceof SyntaxError || error instanceof JsonFault;
  const isPrivate = error instanceof Error && error.cause instanceof PrivateAddressError;
  return !isFinal && !isPrivate && isTransient(error);
}

/**
 * PUTs a result to an address.
 * @returns false, with a line in the log, when the result did not arrive
 */
export async function uploadResult(
  ports: Web & Pick<Ports, 'log'>,
  access: FileAccess,
  url: string,
  text: string,
  signal: AbortSignal,
): Promise<boolean> {
  const init = { method: 'PUT', headers: { 'content-type': 'application/json' }, body: text };
  const policy = {
    clock: ports.clock,
    limitMs: UPLOAD_WITHIN_MS,
    firstPauseMs: FIRST_PAUSE_MS,
    tries: UPLOAD_TRIES,
    mayPass,
    signal,
  };
  try {
    await withRetries(policy, async (limit) => {
      const response = await fetchAllowed(ports, access, url, { ...init, signal: limit });
      await response.body?.cancel();
      if (!response.ok) throw new HttpStatusError(response.status);
    });
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    ports.log.warn({ problem: reasonOf(error) }, 'the upload of a result failed; sending it in a frame');
    return false;
  }
}

/**
 * Collects a body.
 * @param tooLarge returns the error to throw if the body is longer than `bounds.PAYLOAD_BYTES`
 * @param arrived called with every piece
 */
export async function readWhole(
  body: AnswerBody,
  tooLarge: () => Error,
  arrived?: (piece: Uint8Array) => void,
): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  await readPieces(body, (piece) => {
    bytes += piece.byteLength;
    if (bytes > bounds.PAYLOAD_BYTES) throw tooLarge();
    arrived?.(piece);
    pieces.push(piece);
  });
  return pieces.length === 1 ? Buffer.from(pieces[0]!) : Buffer.concat(pieces, bytes);
}

function fileTooLarge(): Error {
  return new FinalError(`more than ${bounds.PAYLOAD_BYTES} bytes`);
}

async function getFile(
  web: Web,
  access: FileAccess,
  url: string,
  signal: AbortSignal,
): Promise<DownloadedFile> {
  const ask = (limit: AbortSignal) => fetchAllowed(web, access, url, { signal: limit });
  const response = await withTimeout(web.clock, BEGUN_WITHIN_MS, ask, { signal });
  if (!response.ok) {
    await response.body?.cancel();
    throw new HttpStatusError(response.status);
  }
  const bytes = response.body ? await readWhole(response.body, fileTooLarge) : Buffer.alloc(0);
  return { bytes, contentType: response.headers.get('content-type') ?? '' };
}

/**
 * Fetches an address and follows redirects itself: each address on the way must be allowed, and the token is sent to
 * our own addresses only.
 * @throws FinalError when an address is not allowed, or there are too many redirects
 */
async function fetchAllowed(
  web: Web,
  access: FileAccess,
  url: string,
  init: RequestInit & { headers?: Record<string, string> },
): Promise<Response> {
  let address = addressOf(url, access);
  for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
    if (!address.ok) throw new FinalError(address.problem);
    const { url: target, authorization, mustBePublic } = address;
    const headers = { ...init.headers, ...(authorization ? { authorization } : {}) };
    const fetchIt = mustBePublic ? web.fetchPublic : web.fetch;
    const response = await fetchIt(target.href, { ...init, headers, redirect: 'manual' });
    const location = response.headers.get('location');
    if (!REDIRECTS.has(response.status) || location === null) return response;
    await response.body?.cancel();
    address = addressOf(location, access, target.href);
  }
  throw new FinalError(`more than ${MOST_REDIRECTS} redirects`);
}
