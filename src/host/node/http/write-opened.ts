import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
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

class Connection implements BodyCarrier {
  readonly #outgoing: ServerResponse;

  constructor(outgoing: ServerResponse) {
    this.#outgoing = outgoing;
  }

  write(data: Uint8Array): boolean {
    const outgoing = this.#outgoing;
    if (outgoing.destroyed) return true;
    joinWrites(outgoing.socket);
    outgoing.write(data);
    // Below the bound the worker need not wait for `drain`.
    return outgoing.writableLength < CALLER_BYTES;
  }

  end(): void {
    try {
      this.#outgoing.end();
    } catch {
      // The body is shorter than its head says.
      breakOff(this.#outgoing);
    }
  }

  fail(): void {
    breakOff(this.#outgoing);
  }
}

/** The connections whose writes wait for the end of this turn of the event loop, when each makes one system call. */
let corked: Socket[] = [];

function joinWrites(socket: Socket | null): void {
  if (!socket || socket.writableCorked > 0) return;
  if (corked.length === 0) setImmediate(uncorkAll);
  socket.cork();
  corked.push(socket);
}

function uncorkAll(): void {
  const those = corked;
  corked = [];
  for (const socket of those) socket.uncork();
}
