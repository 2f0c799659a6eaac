import type { IncomingMessage, ServerResponse } from 'node:http';

/** The statuses whose answers have no body and get no `content-length`. */
const BODILESS = new Set([204, 205, 304]);

/**
 * Writes a response. An error of its body breaks the connection, so that the caller sees that the answer is not whole;
 * if the caller leaves, the body is cancelled. Never rejects.
 */
export async function writeAnswer(
  response: Response,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  // With this option Node throws for an answer shorter than its `content-length`, whose body has failed.
  outgoing.strictContentLength = true;
  const reader = response.body?.getReader();
  const cancel = () => void reader?.cancel().catch(() => {});
  outgoing.once('close', cancel);
  try {
    if (outgoing.destroyed || !reader || incoming.method === 'HEAD') {
      cancel();
      if (!outgoing.destroyed) writeHead(response, incoming, outgoing, reader ? null : 0);
    } else {
      await writeBody(response, reader, incoming, outgoing);
    }
    await readRest(incoming);
    outgoing.end();
  } catch {
    breakOff(outgoing);
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Writes a response's body. @throws if the body fails */
async function writeBody(
  response: Response,
  reader: Reader,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  let next = reader.read();
  const first = await ifSoon(next);
  if (first !== null && !first.done) next = reader.read();
  const last = first === null || first.done ? first : await ifSoon(next);
  if (outgoing.destroyed) return;
  // A body that has come in one piece by now was complete from the beginning, so the head gives its length.
  writeHead(response, incoming, outgoing, last?.done ? (first?.value?.byteLength ?? 0) : null);
  if (first?.value) await write(first.value, outgoing);
  for (let piece = await next; !piece.done; piece = await reader.read()) {
    if (outgoing.destroyed) return;
    await write(piece.value, outgoing);
  }
}

/** Writes the head. @param length the length of the body; null: it is not known */
function writeHead(
  { status, headers }: Response,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  length: number | null,
): void {
  const lines = [...headers].flat();
  const isSized = BODILESS.has(status) || incoming.method === 'HEAD' || headers.has('content-length');
  if (length !== null && !isSized) lines.push('content-length', String(length));
  // The unread rest of the request's body must not be taken for the next request.
  if (!incoming.complete && !headers.has('connection')) lines.push('connection', 'close');
  outgoing.writeHead(status, lines);
  // The head leaves in the next tick, together with the first bytes of the body if they are there.
  if (length === null) process.nextTick(() => outgoing.flushHeaders());
}

/** Writes bytes. Resolves when the connection accepts more. */
async function write(bytes: Uint8Array, outgoing: ServerResponse): Promise<void> {
  if (outgoing.write(bytes)) return;
  await new Promise<void>((done) => {
    const over = () => {
      outgoing.off('drain', over).off('close', over);
      done();
    };
    outgoing.on('drain', over).on('close', over);
  });
}

/** Resolves as the promise does before the next turn of the event loop, else to null. */
function ifSoon<T>(promise: Promise<T>): Promise<T | null> {
  const { promise: turn, resolve } = Promise.withResolvers<null>();
  const immediate = setImmediate(resolve, null);
  return Promise.race([promise, turn]).finally(() => clearImmediate(immediate));
}

/** Ends the connection in the middle of an answer, after what was written of it. */
export function breakOff(outgoing: ServerResponse): void {
  const { socket, req } = outgoing;
  if (!socket || outgoing.destroyed) outgoing.destroy();
  // In HTTP/1.0 the end of the connection ends the answer: only a reset shows that the answer is not whole.
  else if (req.httpVersion === '1.0' && outgoing.headersSent) socket.resetAndDestroy();
  else socket.destroySoon();
}

/** The longest time that a caller may continue to send after its answer, in all and without a byte, ms. */
const LINGER_MS = { most: 10_000, idle: 2000 };

/**
 * Reads and discards what a caller still sends after its answer: closing the connection earlier would lose the answer,
 * which the caller has not read. Resolves when the caller has sent everything, has left, or takes too long.
 */
function readRest(incoming: IncomingMessage): Promise<void> {
  return new Promise((done) => {
    if (incoming.complete || incoming.destroyed) return done();
    const over = () => {
      for (const timer of timers) clearTimeout(timer);
      done();
    };
    const timers = [setTimeout(over, LINGER_MS.idle), setTimeout(over, LINGER_MS.most)];
    incoming.removeAllListeners('readable');
    incoming.on('data', () => timers[0]!.refresh());
    incoming.once('end', over).once('close', over).resume();
  });
}
