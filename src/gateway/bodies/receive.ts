import { freeBytes } from '../../durable/free-bytes.ts';
import type { GatewayEnv } from '../env.ts';
import { HttpError } from '../errors.ts';

/**
 * The gateway reads and throws away this many bytes of a refused body. A client that is still sending when the answer
 * comes sees a broken connection instead of it.
 */
const DISCARDED_BYTES = 256 * 1024 * 1024;
/** A client that has sent nothing for this many ms waits for its answer; or its machine has much to do. */
const DISCARD_IDLE_MS = 5000;

/**
 * A body is late after this many ms without a byte. SLOWEST_BYTES_PER_SECOND bytes give it a second more, up to the
 * same time again.
 */
export const BODY_WITHIN_MS = 30_000;
const SLOWEST_BYTES_PER_SECOND = 32 * 1024;

/** While a piece is being stored, its sender is not late: the watch looks again after this many ms. */
const LOOK_AGAIN_MS = 1000;

/** The gateway reads this many bytes of a body at a time. */
export const RECEIVE_BYTES = 64 * 1024;
/**
 * The bytes of the first buffer, until a read fills it: with large ones 500 bodies that come byte by byte would hold
 * 32 MB.
 */
const FIRST_BYTES = 4096;

/**
 * The most bodies that are read and thrown away side by side. Each leaves up to half a megabyte with its connection,
 * where the runtime's HTTP server reads ahead (docs/decisions/large-bodies.md).
 */
const MOST_DISCARDS = 4;
/**
 * A body of up to this many bytes is discarded only while no other is, and does not wait for its turn: the kernels in
 * between take it, and its caller receives the answer.
 */
const KERNEL_BYTES = 4 * 1024 * 1024;
/**
 * The most other bodies that wait to be discarded; callers of any more are answered at once, and see a broken
 * connection instead.
 */
const MOST_WAITING = 112;
/**
 * A body that waits to be discarded looks whether it may begin after `first` ms, then after twice as long each time,
 * up to `most`.
 */
const DISCARD_POLL_MS = { first: 20, most: 1000 };
/** The number of bodies that are being discarded or wait for it; `read` counts those that are being discarded. */
let discards = 0;
let read = 0;

/**
 * Gives each piece of a body to `take` as it comes, until that returns false: the rest can be discarded. Each piece
 * lies in the same buffer as the one before. The time that `take` needs does not count against the sender.
 * @throws HttpError 408
 */
export async function receive(
  body: ReadableStream<Uint8Array>,
  take: (piece: Uint8Array) => boolean | Promise<boolean>,
): Promise<void> {
  const reader = body.getReader({ mode: 'byob' });
  let buffer = new Uint8Array(FIRST_BYTES);
  let lateAt = Date.now() + BODY_WITHIN_MS;
  let isLate = false;
  let isTaken = false;
  let timer: ReturnType<typeof setTimeout>;
  const watch = () => {
    const leftMs = isTaken ? LOOK_AGAIN_MS : lateAt - Date.now();
    if (leftMs > 0) {
      // The watch looks again when a body that sends nothing more would be late.
      timer = setTimeout(watch, leftMs);
      return;
    }
    isLate = true;
    void reader.cancel().catch(() => {});
  };
  watch();
  try {
    for (;;) {
      // A read that waits when the stream is cancelled ends, or on Cloudflare fails.
      const { done, value } = await reader.read(buffer).catch((error: unknown) => {
        throw isLate ? tooSlow() : error;
      });
      if (isLate) throw tooSlow();
      // The last read returns the buffer too, as an empty part of it, or none where the stream was cancelled.
      if (value) buffer = new Uint8Array(value.buffer as ArrayBuffer);
      if (done) return;
      // A fast sender gets no more time than it had at the beginning, or it could then stand still.
      const moreMs = (value.byteLength / SLOWEST_BYTES_PER_SECOND) * 1000;
      const leftMs = Math.min(lateAt - Date.now() + moreMs, BODY_WITHIN_MS);
      isTaken = true;
      const goesOn = await take(value);
      isTaken = false;
      lateAt = Date.now() + leftMs;
      if (!goesOn) return reader.releaseLock();
      if (value.byteLength === FIRST_BYTES) buffer = new Uint8Array(RECEIVE_BYTES);
    }
  } finally {
    freeBytes(buffer);
    clearTimeout(timer!);
  }
}

/**
 * Reads a body and keeps nothing, so that a caller that is still sending receives the answer. Of many such bodies, only
 * as many are read as may wait for it. Never throws.
 * @param waitMs how long the body waits for its turn, since others may be read first; after that the caller is answered
 * at once
 */
export async function discardBody(request: Request, waitMs = BODY_WITHIN_MS): Promise<void> {
  if (!request.body || request.body.locked) return;
  // This caller has sent no body yet, and sends none once it has the answer. Reading would request the body.
  if (/100-continue/i.test(request.headers.get('expect') ?? '')) return;
  const length = announcedLength(request) ?? Number.POSITIVE_INFINITY;
  // Reading only the beginning would not save the answer.
  if (Number.isFinite(length) && length > DISCARDED_BYTES) return;
  // A short body has arrived already, or nearly: reading it is worth the answer.
  const isShort = length <= RECEIVE_BYTES;
  const turn = length <= KERNEL_BYTES ? { beside: 0, waitMs: 0 } : { beside: MOST_DISCARDS - 1, waitMs };
  const leave = isShort ? () => {} : await takePlace(request.signal, turn);
  if (leave === null) return;
  const reader = request.body.getReader({ mode: 'byob' });
  const end = () => void reader.cancel().catch(() => {});
  const timer = setTimeout(end, BODY_WITHIN_MS);
  let idle: ReturnType<typeof setTimeout>;
  // One buffer serves all of the body: a body that is refused for lack of memory must not take any.
  let buffer = new Uint8Array(RECEIVE_BYTES);
  try {
    for (let size = 0; size <= DISCARDED_BYTES; ) {
      idle = setTimeout(end, DISCARD_IDLE_MS);
      const { done, value } = await reader.read(buffer);
      clearTimeout(idle);
      if (value) buffer = new Uint8Array(value.buffer as ArrayBuffer);
      if (done) break;
      size += value.byteLength;
    }
  } catch {
    // The sender has left.
  } finally {
    freeBytes(buffer);
    leave();
    clearTimeout(idle!);
    clearTimeout(timer);
    end();
  }
}

/**
 * Waits until a body may be read and thrown away.
 * @param turn the most others beside which it may be read, and how long it waits for that
 * @returns a function that gives its place back, or null where it may not be read
 */
async function takePlace(
  signal: AbortSignal,
  turn: { beside: number; waitMs: number },
): Promise<(() => void) | null> {
  if (discards >= MOST_DISCARDS + MOST_WAITING) return null;
  discards += 1;
  let isRead = false;
  let isOver = false;
  const leave = () => {
    if (isOver) return;
    isOver = true;
    discards -= 1;
    if (isRead) read -= 1;
  };
  // The runtime runs nothing below for a request that it drops, as in `readBody`.
  signal.addEventListener('abort', leave);
  // This waits by polling: on Cloudflare no request can wait for a promise that another one resolves.
  const begunAt = Date.now();
  for (
    let pollMs = DISCARD_POLL_MS.first;
    read > turn.beside;
    pollMs = Math.min(2 * pollMs, DISCARD_POLL_MS.most)
  ) {
    if (Date.now() - begunAt >= turn.waitMs) leave();
    if (isOver) return null;
    // The times are spread at random: otherwise all would look at the same moments, and only the first would find room.
    await new Promise((done) => setTimeout(done, pollMs * (0.5 + Math.random() / 2)));
  }
  if (isOver) return null;
  isRead = true;
  read += 1;
  return leave;
}

/** Returns the length of the body by the head of its request, or null where the head has none. */
export function announcedLength(request: Request): number | null {
  const header = request.headers.get('content-length');
  return header !== null && /^\d{1,15}$/.test(header) ? Number(header) : null;
}

export function tooSlow(): HttpError {
  const message = `The body came too slowly: ${SLOWEST_BYTES_PER_SECOND / 1024} KiB a second are expected, with pauses of up to ${BODY_WITHIN_MS / 1000} s.`;
  return new HttpError(408, message, 'body_too_slow', { connection: 'close' });
}

/** The bytes of submissions that are worked on at a time; a longer submission has a turn for itself. */
const MOST_BYTES = 256 * 1024;
/**
 * A submission that polls looks whether it may begin after `first` ms, then after twice as long each time, up to
 * `most`.
 */
const POLL_MS = { first: 2, most: 64 };

let bytesAtWork = 0;
/** The submissions that wait to be woken, in the order in which they came. */
const waiting: { bytes: number; begin: () => void }[] = [];

/**
 * Waits for a submission's turn. Programs submit far more at a time than people ask for, and one thread works on all of
 * it: only so much of it is read, checked and on its way to the queue at a time, and everybody else is served between two
 * submissions. Where the host cannot have one request wake another, it polls.
 * @param bytes of the submission
 * @returns a function that ends the turn, also when the submitter has left; it may be called twice
 */
export async function takeTurn(
  bytes: number,
  { wakesRequests = false }: Pick<GatewayEnv, 'wakesRequests'>,
): Promise<() => void> {
  if (wakesRequests) await roomByTurn(bytes);
  else await polledRoom(bytes);
  let isOver = false;
  return () => {
    if (isOver) return;
    isOver = true;
    bytesAtWork -= bytes;
    wakeWaiting();
  };
}

function hasRoom(bytes: number): boolean {
  return bytesAtWork === 0 || bytesAtWork + bytes <= MOST_BYTES;
}

function roomByTurn(bytes: number): Promise<void> | void {
  if (waiting.length > 0 || !hasRoom(bytes))
    return new Promise<void>((begin) => waiting.push({ bytes, begin }));
  bytesAtWork += bytes;
}

/** Wakes those that have room by now. Each begins in a task of its own, so that others are served before it. */
function wakeWaiting(): void {
  while (waiting.length > 0 && hasRoom(waiting[0]!.bytes)) {
    const { bytes, begin } = waiting.shift()!;
    bytesAtWork += bytes;
    setTimeout(begin, 0);
  }
}

async function polledRoom(bytes: number): Promise<void> {
  for (let most = POLL_MS.first; !hasRoom(bytes); most = Math.min(2 * most, POLL_MS.most)) {
    // The times are spread at random: otherwise all would look at the same moments, and only the first would find room.
    const ms = most * (0.5 + Math.random() / 2);
    await new Promise((done) => setTimeout(done, ms));
  }
  bytesAtWork += bytes;
}
