import { BROKEN_HEADER } from '../../asking/broken-header.ts';
import { quietly } from '../../durable/quietly.ts';
import { type AnswerHead, asciiJson, type BrokenReason } from '../../protocol/index.ts';
import type { CallerSink } from '../stream-ports.ts';
import { AnswerBody, answerHeaders, type BodyCarrier, isBodiless } from './answer-body.ts';

/** How an answer opened for its caller. */
export type OpenedAnswer = OpenAnswer | { broken: BrokenReason };

interface OpenAnswer extends BodyWriter {
  head: AnswerHead;
  /** All of its bytes, if they are here; null: they are written to what is attached. */
  whole: Uint8Array | null;
}

/** What writes the body of a response. */
interface BodyWriter {
  /** The caller is there. */
  attach(sink: CallerSink): void;
  /** The caller takes more again, after a write that it could not take. */
  reads(): void;
  gone(): void;
}

/**
 * What the runtime may hold for a caller before the worker is paused, 256 KiB. Not a `ByteLengthQueuingStrategy`: each
 * is two objects of the runtime's, and its size of a chunk a call out of JavaScript.
 */
const CALLER_BUFFER: QueuingStrategy<Uint8Array> = {
  highWaterMark: 256 * 1024,
  size: (chunk) => chunk.byteLength,
};

/** The response that an answer goes out with. @param more headers of the gateway's */
export function responseOf(opened: OpenedAnswer, more: Record<string, string>): Response {
  if ('broken' in opened) {
    return new Response(null, { status: 502, headers: { [BROKEN_HEADER]: asciiJson(opened.broken) } });
  }
  const { head, whole } = opened;
  // `encodeBody` is known to Cloudflare's runtime alone.
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
   * Resolves when the runtime holds all that it may. As the answer to `pull` it keeps the runtime from pulling again
   * after every write, which is a tenth of what a write costs.
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
