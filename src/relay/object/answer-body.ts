import { BROKEN_HEADER } from '../../asking/attempt-loop.ts';
import {
  type AnswerHead,
  type BrokenReason,
  brokenOff,
  CHALLENGE,
  isEventStream,
  UNBUFFERED,
} from '../../protocol/index.ts';
import { KeepAlive } from '../keep-alive.ts';
import { brokenEvents } from '../sse.ts';
import type { CallerSink } from '../stream-ports.ts';

/** The carrier of a response's body. Its methods never throw: the relay learns in another way that a caller is gone. */
export interface BodyCarrier {
  /** @returns whether it takes more now */
  write(data: Uint8Array): boolean;
  end(): void;
  /** Ends the body so that the caller sees that it is not whole. */
  fail(error: Error): void;
}

/** The body for a caller: the engine's bytes, comments while the engine is silent, and an error event if it breaks. */
export class AnswerBody implements CallerSink {
  readonly #carrier: BodyCarrier;
  readonly #head: AnswerHead;
  readonly #isEvents: boolean;
  readonly #keepAlive = new KeepAlive();

  constructor(head: AnswerHead, carrier: BodyCarrier) {
    this.#carrier = carrier;
    this.#head = head;
    this.#isEvents = isEventStream(head.headers);
  }

  keepAlive(): void {
    this.#carrier.write(this.#keepAlive.comment());
  }

  write(data: Uint8Array): boolean {
    return this.#carrier.write(this.#isEvents ? this.#keepAlive.next(data) : data);
  }

  end(): void {
    this.#carrier.end();
  }

  abort(reason: BrokenReason, mayAddEvent: boolean): void {
    if (!mayAddEvent) return this.#carrier.fail(brokenOff(reason.message));
    const { dialect = 'openai' } = this.#head;
    this.#carrier.write(this.#keepAlive.next(brokenEvents(reason, dialect)));
    this.#carrier.end();
  }
}

/** Returns the headers that a response with this answer has. @param more the gateway's headers */
export function answerHeaders(head: AnswerHead, more: Record<string, string>): Record<string, string> {
  // The relay alone sets this header.
  const { [BROKEN_HEADER]: _, ...headers } = head.headers;
  return {
    ...(head.status === 401 && { 'www-authenticate': CHALLENGE }),
    ...headers,
    ...(isEventStream(headers) && UNBUFFERED),
    ...more,
  };
}

/** Responses with these statuses may not have a body. */
const BODILESS = new Set([101, 204, 205, 304]);

export function isBodiless({ status }: AnswerHead): boolean {
  return BODILESS.has(status);
}
