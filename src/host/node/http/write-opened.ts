import type { ServerResponse } from 'node:http';
import {
  AnswerBody,
  answerHeaders,
  type BodyCarrier,
  isBodiless,
} from '../../../relay/object/answer-body.ts';
import type { OpenedAnswer } from '../../../relay/object/responses.ts';
import { breakOff } from './answer.ts';

/** The worker is paused once this many bytes wait for the caller's connection. */
const CALLER_BYTES = 256 * 1024;

/** Writes the answer of an engine. @param more the headers beside the engine's */
export function writeOpened(
  opened: Exclude<OpenedAnswer, { broken: unknown }>,
  more: Record<string, string>,
  outgoing: ServerResponse,
): void {
  const { head, whole } = opened;
  if (outgoing.destroyed) return opened.gone();
  const headers = answerHeaders(head, more);
  if (whole !== null) {
    if (!isBodiless(head)) headers['content-length'] = String(whole.byteLength);
    outgoing.writeHead(head.status, headers);
    outgoing.end(isBodiless(head) ? undefined : whole);
    return;
  }
  outgoing.strictContentLength = true;
  outgoing.writeHead(head.status, headers);
  outgoing.on('drain', () => opened.reads());
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) opened.gone();
  });
  opened.attach(new AnswerBody(head, new Connection(outgoing)));
}

/** Carries a body to the caller's connection: what is written in one turn of the event loop is one system call. */
class Connection implements BodyCarrier {
  readonly #outgoing: ServerResponse;
  readonly #isChunked: boolean;
  /** The pieces that were written in this turn. */
  #pieces: Uint8Array[] = [];
  #isEnding = false;

  /** @param outgoing its head has been written */
  constructor(outgoing: ServerResponse) {
    this.#outgoing = outgoing;
    // Node frames a chunk in three writes, each with objects of its own.
    this.#isChunked = outgoing.chunkedEncoding;
    outgoing.chunkedEncoding = false;
  }

  write(data: Uint8Array): boolean {
    if (this.#outgoing.destroyed) return true;
    if (this.#pieces.length === 0) sendThisTurn(this);
    this.#pieces.push(data);
    // Below the bound the worker need not wait for `drain`.
    return this.#outgoing.writableLength < CALLER_BYTES;
  }

  end(): void {
    if (this.#pieces.length === 0) sendThisTurn(this);
    this.#isEnding = true;
  }

  fail(): void {
    this.send();
    breakOff(this.#outgoing);
  }

  /** Sends what was written in this turn. */
  send(): void {
    const outgoing = this.#outgoing;
    const pieces = this.#pieces;
    this.#pieces = [];
    if (outgoing.destroyed) return;
    const bytes = this.#isChunked ? chunkOf(pieces, this.#isEnding) : Buffer.concat(pieces);
    try {
      if (this.#isEnding) {
        outgoing.end(bytes);
      } else if (bytes.byteLength > 0) {
        // Node corks the connection for the rest of the tick, unless it is corked already.
        const { socket } = outgoing;
        socket?.cork();
        outgoing.write(bytes);
        socket?.uncork();
      }
    } catch {
      // The body has another length than its head says.
      breakOff(outgoing);
    }
  }
}

/** The connections whose bodies are sent at the end of this turn of the event loop. */
let waiting: Connection[] = [];

function sendThisTurn(connection: Connection): void {
  if (waiting.length === 0) setImmediate(sendAll);
  waiting.push(connection);
}

function sendAll(): void {
  const those = waiting;
  waiting = [];
  for (const connection of those) connection.send();
}

/** The end of a chunked body, behind its last chunk. */
const LAST_CHUNK = '0\r\n\r\n';

/** Returns pieces as one chunk of a chunked body (RFC 9112, 7.1). @param isLast whether they are the end of the body */
function chunkOf(pieces: readonly Uint8Array[], isLast: boolean): Buffer {
  let size = 0;
  for (const { byteLength } of pieces) size += byteLength;
  const head = size === 0 ? '' : `${size.toString(16)}\r\n`;
  const tail = `${size === 0 ? '' : '\r\n'}${isLast ? LAST_CHUNK : ''}`;
  const chunk = Buffer.allocUnsafe(head.length + size + tail.length);
  let at = chunk.write(head, 'latin1');
  for (const piece of pieces) {
    chunk.set(piece, at);
    at += piece.byteLength;
  }
  chunk.write(tail, at, 'latin1');
  return chunk;
}
