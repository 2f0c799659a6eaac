import { BROKEN_HEADER } from '../../asking/attempt-loop.ts';
import { quietly } from '../../durable/host.ts';
import { type AnswerHead, asciiJson, type BrokenReason } from '../../protocol/index.ts';
import type { CallerSink } from '../stream-ports.ts';
import { AnswerBody, answerHeaders, type BodyCarrier, isBodiless } from './answer-body.ts';

/** An answer that has opened for its caller, or the reason why it broke before. */
export type OpenedAnswer = OpenAnswer | { broken: BrokenReason };

interface OpenAnswer extends BodyWriter {
  head: AnswerHead;
  /** All bytes of the answer, if they are here; null: they are written to the attached sink. */
  whole: Uint8Array | null;
}

/** The writer of a response's body. */
interface BodyWriter {
  /** Connects the caller's sink. */
  attach(sink: CallerSink): void;
  /** Notes that the caller takes more again after a full write. */
  reads(): void;
  gone(): void;
}

/**
 * The worker is paused once the runtime holds 256 KiB for a caller. A `ByteLengthQueuingStrategy` would cost more: each
 * takes two objects of the runtime, and the size of each chunk a call out of JavaScript.
 */
const CALLER_BUFFER: QueuingStrategy<Uint8Array> = {
  highWaterMark: 256 * 1024,
  size: (chunk) => chunk.byteLength,
};

/** Returns the response for an answer. @param more the gateway's headers */
export function responseOf(opened: OpenedAnswer, more: Record<string, string>): Response {
  if ('broken' in opened) {
    return new Response(null, { status: 502, headers: { [BROKEN_HEADER]: asciiJson(opened.broken) } });
  }
  const { head, whole } = opened;
  // Only Cloudflare's runtime knows `encodeBody`.
  const init: ResponseInit & { encodeBody?: 'manual' } = {
    status: head.status,
    headers: answerHeaders(head, more),
  };
  // A body that the engine compressed goes to its caller as it is.
  if (head.headers['content-encoding']) init.encodeBody = 'manual';
  const body = whole === null ? streamOf(head, opened) : (whole as Uint8Array<ArrayBuffer>);
  return new Response(isBodiless(head) ? null : body, init);
}

function streamOf(head: AnswerHead, writer: BodyWriter): ReadableStream<Uint8Array> {
  let carrier: StreamCarrier;
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        carrier = new StreamCarrier(controller);
        writer.attach(new AnswerBody(head, carrier));
      },
      pull: () => {
        const full = carrier.untilFull();
        writer.reads();
        return full;
      },
      cancel: () => writer.gone(),
    },
    CALLER_BUFFER,
  );
}

class StreamCarrier implements BodyCarrier {
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;
  #full = Promise.withResolvers<void>();

  constructor(controller: ReadableStreamDefaultController<Uint8Array>) {
    this.#controller = controller;
  }

  /**
   * Resolves when the runtime holds as much as it may. `pull` returns this promise, so that the runtime does not pull
   * again after every write, which would take a tenth of a write's cost.
   */
  untilFull(): Promise<void> {
    this.#full = Promise.withResolvers<void>();
    return this.#full.promise;
  }

  write(data: Uint8Array): boolean {
    quietly(() => this.#controller.enqueue(data));
    const takesMore = (this.#controller.desiredSize ?? 0) > 0;
    if (!takesMore) this.#full.resolve();
    return takesMore;
  }

  end(): void {
    quietly(() => this.#controller.close());
    this.#full.resolve();
  }

  fail(error: Error): void {
    this.#controller.error(error);
    this.#full.resolve();
  }
}
