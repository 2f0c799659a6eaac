import { freeBytes } from '../../durable/free-bytes.ts';
import {
  bounds,
  checkJson,
  fieldsOf,
  JsonFault,
  keepMembers,
  utf8Text,
  withoutMark,
} from '../../protocol/index.ts';
import { RequestFault } from '../../request-facts/json.ts';
import { QUEUE_SETTINGS } from '../../settings/queue-settings.ts';
import type { Env } from '../env.ts';
import { HttpError, retryAfter, tooLarge } from '../errors.ts';
import { announcedLength, BODY_WITHIN_MS, discardBody, RECEIVE_BYTES, receive, tooSlow } from './receive.ts';

/** The bytes of the bodies that this gateway holds at the moment: all callers share its memory. */
let heldBytes = 0;

/** A body in memory. Its reader calls `release`, which frees its bytes, once it reads them no more. */
export interface HeldBody {
  bytes: Uint8Array;
  release(): void;
}

/**
 * Reads a request's body and counts it against the memory that all bodies may have together.
 * @param variable the environment variable that sets `maxBytes`; left out where none does
 * @throws HttpError 413 when the body is longer than `maxBytes`, 503 while there is no room for it, 408 when it comes
 * too slowly; what the caller still sends is read first and thrown away
 */
export async function readBody(
  request: Request,
  env: Env,
  maxBytes: number = bounds.PAYLOAD_BYTES,
  variable?: string,
): Promise<HeldBody> {
  const forAll = Number(env.MAX_BODIES_BYTES || QUEUE_SETTINGS.max_bodies_bytes.default);
  // A single body of the allowed size always has room, however low the limit for all bodies is.
  const held = new Reservation(Math.max(forAll, Number(env.MAX_BODY_BYTES || 0)));
  const over = () => tooLarge(maxBytes, variable);
  // The runtime drops a request whose caller breaks off: nothing that waits for its body, or for anything else, runs
  // after that, not even a `finally`.
  request.signal.addEventListener('abort', () => held.end());
  try {
    const announced = announcedLength(request);
    if (announced !== null && announced > maxBytes) throw over();
    if (announced !== null) held.grow(announced);
    const bytes = await read(request, announced, maxBytes, held, over);
    const release = () => {
      held.release();
      freeBytes(bytes);
    };
    return { bytes, release };
  } catch (error) {
    held.release();
    if (error instanceof HttpError && error.status !== 408) await discardBody(request);
    throw error;
  }
}

/**
 * Returns the value of a short JSON body.
 * @throws HttpError as `readBody` and `parseBody`
 */
export async function readValue(request: Request, env: Env, maxBytes: number): Promise<unknown> {
  const { bytes, release } = await readBody(request, env, maxBytes);
  try {
    return parseBody(bytes);
  } finally {
    release();
  }
}

/**
 * Returns the value of a JSON body.
 * @throws HttpError 400
 */
export function parseBody(bytes: Uint8Array): unknown {
  try {
    const text = utf8Text(bytes);
    checkBody(withoutMark(bytes));
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof HttpError) throw error;
    if (error instanceof JsonFault) throw new HttpError(400, error.message, error.code);
    throw new HttpError(400, `The body is not valid JSON: ${(error as Error).message}`, 'invalid_json');
  }
}

/**
 * Returns the members of a JSON body.
 * @throws HttpError 400 where it is no object
 */
export function parseObject(bytes: Uint8Array): { readonly [name: string]: unknown } {
  const value = parseBody(bytes);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return fieldsOf(value);
  throw new HttpError(400, 'The body must be a JSON object.', 'invalid_json');
}

/**
 * Parses a body as `parseBody` does; the named members keep their JSON as the caller wrote it.
 * @param names members of an object, or of each object of an array
 * @throws HttpError 400
 */
export function parseKeeping(bytes: Uint8Array, names: readonly string[]): unknown {
  const value = parseBody(bytes);
  keepMembers(value, withoutMark(bytes), names);
  return value;
}

async function read(
  request: Request,
  announced: number | null,
  maxBytes: number,
  held: Reservation,
  over: () => HttpError,
): Promise<Uint8Array> {
  // A body of one or two pieces need not be watched as it comes.
  if (announced !== null && announced <= RECEIVE_BYTES) return await readShort(request);
  if (!request.body) return new Uint8Array();
  let bytes = new Uint8Array(announced ?? Math.min(RECEIVE_BYTES, maxBytes));
  let size = 0;
  let problem: unknown = null;
  await receive(request.body, (piece) => {
    const at = size;
    size += piece.byteLength;
    try {
      if (size > maxBytes) throw over();
      if (size > bytes.byteLength) {
        const longer = Math.min(maxBytes, Math.max(size, 2 * bytes.byteLength));
        held.grow(longer - held.bytes);
        const copy = new Uint8Array(longer);
        copy.set(bytes.subarray(0, at));
        freeBytes(bytes);
        bytes = copy;
      }
      bytes.set(piece, at);
    } catch (error) {
      problem = error;
      freeBytes(bytes);
    }
    return problem === null;
  });
  if (problem !== null) throw problem;
  // A view of a part of the buffer could not be freed, so the buffer itself is shortened.
  return size === bytes.byteLength ? bytes : new Uint8Array((bytes.buffer as ArrayBuffer).transfer(size));
}

async function readShort(request: Request): Promise<Uint8Array> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(tooSlow()), BODY_WITHIN_MS);
  try {
    return new Uint8Array(await Promise.race([request.arrayBuffer(), late.promise]));
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Counts a message that is not the body of a request against the memory of all bodies.
 * @returns a function that releases it
 * @throws HttpError 503
 */
export function holdBytes(env: Env, bytes: number): () => void {
  const held = new Reservation(Number(env.MAX_BODIES_BYTES || QUEUE_SETTINGS.max_bodies_bytes.default));
  held.grow(bytes);
  return () => held.release();
}

/** The share that one body has of the memory of all bodies. */
class Reservation {
  bytes = 0;
  readonly #most: number;
  #isOver = false;
  constructor(most: number) {
    this.#most = most;
  }

  /** @throws HttpError 503 */
  grow(bytes: number): void {
    if (this.#isOver) return;
    if (heldBytes + bytes > this.#most) {
      const mib = Math.floor(this.#most / 1024 / 1024);
      const message = `The gateway holds as many request bodies as it may (${mib} MiB): try again in a moment.`;
      throw new HttpError(503, message, 'gateway_full', retryAfter(1));
    }
    heldBytes += bytes;
    this.bytes += bytes;
  }

  release(): void {
    heldBytes -= this.bytes;
    this.bytes = 0;
  }

  /** Releases the share for good: the caller has left. */
  end(): void {
    this.release();
    this.#isOver = true;
  }
}

/**
 * Checks a body that is parsed afterwards.
 * @returns the number of its texts, keys, objects and arrays
 * @throws HttpError 400 for more than bounds.JSON_DEPTH levels or bounds.JSON_VALUES of them
 */
export function checkBody(body: Uint8Array): number {
  return asHttp(() => checkJson(body));
}

/**
 * Returns what `read` returns, and turns its faults into errors for callers.
 * @throws HttpError 400 where a request cannot be read, or may go to no engine
 */
export function asHttp<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof JsonFault || error instanceof RequestFault
      ? new HttpError(400, error.message, error.code)
      : error;
  }
}
