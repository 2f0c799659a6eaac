import { quietly } from '../../durable/quietly.ts';
import {
  type AnswerHead,
  asciiJson,
  type BrokenReason,
  brokenOff,
  CHALLENGE,
  isEventStream,
  OPTIMISATIONS,
  UNBUFFERED,
} from '../../protocol/index.ts';
import { BROKEN_HEADER } from '../calls.ts';
import { KeepAlive } from '../keep-alive.ts';
import { brokenEvents } from '../sse.ts';
import type { CallerSink } from '../stream-ports.ts';

/**
 * What the runtime may hold for a caller before the worker is paused, 256 KiB. Not a `ByteLengthQueuingStrategy`: each
 * is two objects of the runtime's, and its size of a chunk a call out of JavaScript.
 */
const CALLER_BUFFER: QueuingStrategy<Uint8Array> = {
  highWaterMark: 256 * 1024,
  size: (chunk) => chunk.byteLength,
};
/** Responses with these statuses may not have a body. */
const BODILESS = new Set([101, 204, 205, 304]);

/** The response that an answer goes out with. @param more headers of the gateway's */
export function wholeResponse(head: AnswerHead, whole: Uint8Array, more: Record<string, string>): Response {
  return responseWith(head, whole as Uint8Array<ArrayBuffer>, more);
}

/** What writes the body of a response. */
export interface BodyWriter {
  /** The caller is there. */
  attach(sink: CallerSink): void;
  /** The runtime takes more again, after a write that it could not take. */
  reads(): void;
  gone(): void;
}

export function streamedResponse(
  head: AnswerHead,
  writer: BodyWriter,
  more: Record<string, string>,
): Response {
  let sink: ResponseSink;
  const source: UnderlyingSource<Uint8Array> = {
    start: (controller) => {
      sink = new ResponseSink(controller, head);
      writer.attach(sink);
    },
    pull: () => {
      const full = sink.untilFull();
      writer.reads();
      return OPTIMISATIONS.pullWhenFull ? full : undefined;
    },
    cancel: () => writer.gone(),
  };
  return responseWith(head, new ReadableStream<Uint8Array>(source, CALLER_BUFFER), more);
}

function responseWith(head: AnswerHead, body: BodyInit, more: Record<string, string>): Response {
  // That name is the relay's own.
  const { [BROKEN_HEADER]: _, ...headers } = head.headers;
  const all = {
    ...(head.status === 401 && { 'www-authenticate': CHALLENGE }),
    ...headers,
    ...(isEventStream(headers) && UNBUFFERED),
    ...more,
  };
  const init: ResponseInit = { status: head.status, headers: all };
  // A body that the engine compressed goes to its caller as it is.
  if (headers['content-encoding']) init.encodeBody = 'manual';
  return new Response(BODILESS.has(head.status) ? null : body, init);
}

class ResponseSink implements CallerSink {
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;
  readonly #head: AnswerHead;
  readonly #isEvents: boolean;
  readonly #keepAlive = new KeepAlive();
  #full = Promise.withResolvers<void>();

  constructor(controller: ReadableStreamDefaultController<Uint8Array>, head: AnswerHead) {
    this.#controller = controller;
    this.#head = head;
    this.#isEvents = isEventStream(head.headers);
  }

  /**
   * Resolves when the runtime holds all that it may. As the answer to `pull` it keeps the runtime from pulling again
   * after every write, which is a tenth of what a write costs.
   */
  untilFull(): Promise<void> {
    this.#full = Promise.withResolvers<void>();
    return this.#full.promise;
  }

  keepAlive(): void {
    this.#enqueue(this.#keepAlive.comment());
  }

  write(data: Uint8Array): boolean {
    this.#enqueue(this.#isEvents ? this.#keepAlive.next(data) : data);
    const takesMore = (this.#controller.desiredSize ?? 0) > 0;
    if (!takesMore) this.#full.resolve();
    return takesMore;
  }

  end(): void {
    quietly(() => this.#controller.close());
    this.#full.resolve();
  }

  abort(reason: BrokenReason, mayAddEvent: boolean): void {
    if (!mayAddEvent) {
      this.#controller.error(brokenOff(reason.message));
      this.#full.resolve();
      return;
    }
    const { dialect = 'openai' } = this.#head;
    this.#enqueue(this.#keepAlive.next(brokenEvents(reason, dialect)));
    this.end();
  }

  #enqueue(data: Uint8Array): void {
    quietly(() => this.#controller.enqueue(data));
  }
}

export function brokenResponse(reason: BrokenReason): Response {
  return new Response(null, { status: 502, headers: { [BROKEN_HEADER]: asciiJson(reason) } });
}
