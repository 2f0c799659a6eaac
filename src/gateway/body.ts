import { freeBytes } from '../durable/free-bytes.ts';
import { limits } from '../protocol/index.ts';
import { QUEUE_SETTINGS } from '../settings/queue-settings.ts';
import type { Env } from './env.ts';
import { HttpError, retryAfter, tooLarge } from './errors.ts';
import { checkDepth } from './json-scan.ts';

/**
 * How much of a body that is not taken is read and thrown away. A client that is still sending when it is
 * answered sees a broken connection instead of the answer.
 */
const DISCARDED_BYTES = 256 * 1024 * 1024;

/** A body may take this long, ms, and a second more for each so many bytes of it that have come. */
const BODY_WITHIN_MS = 30_000;
const SLOWEST_BYTES_PER_SECOND = 32 * 1024;

/** A body whose length is known and no more than this comes in one piece or two: no need to watch it come. */
const SHORT_BYTES = 64 * 1024;

/** Memory of the bodies that this isolate holds at the moment, in bytes: all callers share its memory. */
let heldBytes = 0;

/**
 * Bodies that are read and thrown away side by side; others wait in the kernel, where they cost no memory of ours:
 * 600 of 2 MiB at once cost 220 MB.
 */
const MOST_DISCARDS = 16;
/** Each that waits looks whether it may begin after so long, ms, then after twice as long: 2,000 may wait. */
const DISCARD_POLL_MS = { first: 20, most: 1000 };
let discards = 0;

/** A body in memory. `release` when nobody reads its bytes any more: it frees them. */
export interface HeldBody {
  bytes: Uint8Array;
  release(): void;
}

/**
 * A request's body, counted against the memory that bodies may have together (`GATEWAY_MAX_BODIES_BYTES`).
 * @param variable that sets `maxBytes`; left out: none does
 * @throws HttpError 413 when it is longer than `maxBytes`, 503 while there is no room for it, 408 when it comes too
 *   slowly; what the caller still sends is read first and thrown away
 */
export async function readBody(
  request: Request,
  env: Env,
  maxBytes: number = limits.PAYLOAD_BYTES,
  variable?: string,
): Promise<HeldBody> {
  const forAll = Number(env.MAX_BODIES_BYTES || QUEUE_SETTINGS.max_bodies_bytes.default);
  // One body that is allowed has room, whatever is set for all.
  const held = new Reservation(Math.max(forAll, Number(env.MAX_BODY_BYTES || 0)));
  const over = () => tooLarge(maxBytes, variable);
  // The runtime drops a request whose caller breaks off: nothing that waits for its body, or for anything else, runs
  // after this, not even a `finally`.
  request.signal.addEventListener('abort', () => held.end());
  try {
    const announced = lengthOf(request);
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
 * The value that a short body in JSON stands for.
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

/** Reads what comes and keeps nothing, so that a caller that is still sending hears the answer. Never throws. */
export async function discardBody(request: Request): Promise<void> {
  if (!request.body || request.body.locked) return;
  // Polled: a promise that another request resolves is of no use to this one's runtime.
  const begunAt = Date.now();
  for (
    let most = DISCARD_POLL_MS.first;
    discards >= MOST_DISCARDS;
    most = Math.min(2 * most, DISCARD_POLL_MS.most)
  ) {
    if (Date.now() - begunAt >= BODY_WITHIN_MS) break;
    // Spread, or all would look at the same moments, and find what the first of them took.
    const ms = most * (0.5 + Math.random() / 2);
    await new Promise((done) => setTimeout(done, ms));
  }
  discards += 1;
  let isOver = false;
  const over = () => {
    if (!isOver) discards -= 1;
    isOver = true;
  };
  // As in `readBody`: of a request that is dropped nothing below runs.
  request.signal.addEventListener('abort', over);
  const reader = request.body.getReader({ mode: 'byob' });
  const timer = setTimeout(() => void reader.cancel().catch(() => {}), BODY_WITHIN_MS);
  // One buffer for all of it: what is refused for want of memory must not need any.
  let buffer = new Uint8Array(SHORT_BYTES);
  try {
    for (let size = 0; size <= DISCARDED_BYTES; ) {
      const { done, value } = await reader.read(buffer);
      if (value) buffer = new Uint8Array(value.buffer as ArrayBuffer);
      if (done) break;
      size += value.byteLength;
    }
  } catch {
    // Nobody sends any more.
  } finally {
    freeBytes(buffer);
    over();
    clearTimeout(timer);
    void reader.cancel().catch(() => {});
  }
}

/**
 * The value a JSON body stands for.
 * @throws HttpError 400
 */
export function parseBody(bytes: Uint8Array): unknown {
  const body = withoutMark(bytes);
  checkDepth(body);
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch (error) {
    throw new HttpError(400, `The body is not valid JSON: ${(error as Error).message}`, 'invalid_json');
  }
}

async function read(
  request: Request,
  announced: number | null,
  maxBytes: number,
  held: Reservation,
  over: () => HttpError,
): Promise<Uint8Array> {
  if (announced !== null && announced <= SHORT_BYTES) return await readShort(request);
  if (!request.body) return new Uint8Array();
  let bytes = new Uint8Array(announced ?? Math.min(SHORT_BYTES, maxBytes));
  let size = 0;
  let problem: unknown = null;
  await receive(request.body, (piece) => {
    const at = size;
    size += piece.byteLength;
    if (problem !== null) return size <= DISCARDED_BYTES;
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
      bytes = new Uint8Array();
      held.release();
    }
    return (problem as HttpError | null)?.status !== 503;
  });
  if (problem !== null) throw problem;
  return bytes.subarray(0, size);
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
 * Gives each piece to `take` as it comes, until that returns false. Each lies in the same buffer as the one before.
 * @throws HttpError 408
 */
async function receive(
  body: ReadableStream<Uint8Array>,
  take: (piece: Uint8Array) => boolean,
): Promise<void> {
  const reader = body.getReader({ mode: 'byob' });
  let buffer = new Uint8Array(SHORT_BYTES);
  const startedAt = Date.now();
  let size = 0;
  let isLate = false;
  let timer: ReturnType<typeof setTimeout>;
  const watch = () => {
    const leftMs = startedAt + BODY_WITHIN_MS + (size / SLOWEST_BYTES_PER_SECOND) * 1000 - Date.now();
    if (leftMs > 0) {
      // Looked at again when a body of which nothing more comes would be late.
      timer = setTimeout(watch, leftMs);
      return;
    }
    isLate = true;
    void reader.cancel().catch(() => {});
  };
  watch();
  try {
    for (;;) {
      // A read that waits when the stream is cancelled ends, or fails in workerd.
      const { done, value } = await reader.read(buffer).catch((error: unknown) => {
        throw isLate ? tooSlow() : error;
      });
      if (isLate) throw tooSlow();
      // At the end too: an empty part of it, or none where the stream was cancelled.
      if (value) buffer = new Uint8Array(value.buffer as ArrayBuffer);
      if (done) return;
      size += value.byteLength;
      if (!take(value)) return void reader.cancel().catch(() => {});
    }
  } finally {
    freeBytes(buffer);
    clearTimeout(timer!);
  }
}

/**
 * Counts a message that came by other ways than a request's body against the same memory.
 * @returns releases it
 * @throws HttpError 503
 */
export function holdBytes(env: Env, bytes: number): () => void {
  const held = new Reservation(Number(env.MAX_BODIES_BYTES || QUEUE_SETTINGS.max_bodies_bytes.default));
  held.grow(bytes);
  return () => held.release();
}

/** What one body has of the memory for all. */
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
      const message = `The gateway holds as many request bodies as it may (${mib} MiB, GATEWAY_MAX_BODIES_BYTES): try again in a moment.`;
      throw new HttpError(503, message, 'gateway_full', retryAfter(1));
    }
    heldBytes += bytes;
    this.bytes += bytes;
  }

  release(): void {
    heldBytes -= this.bytes;
    this.bytes = 0;
  }

  /** Releases it, for good: its caller is gone. */
  end(): void {
    this.release();
    this.#isOver = true;
  }
}

/** A byte order mark is none of JSON's, and parsers that read text leave it out. */
export function withoutMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}

function lengthOf(request: Request): number | null {
  const header = request.headers.get('content-length');
  return header !== null && /^\d{1,15}$/.test(header) ? Number(header) : null;
}

function tooSlow(): HttpError {
  const message = `The body came too slowly: ${BODY_WITHIN_MS / 1000} s are allowed, and a second more for every ${SLOWEST_BYTES_PER_SECOND / 1024} KiB.`;
  return new HttpError(408, message, 'body_too_slow', { connection: 'close' });
}
