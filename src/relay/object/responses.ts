import { type AnswerHead, asciiJson, type BrokenReason } from '../../protocol/index.ts';
import type { CallerSink } from '../caller-stream.ts';
import { BROKEN_HEADER } from '../calls.ts';
import { brokenEvents } from '../sse.ts';

/** What the runtime may hold for a caller before the worker is paused, bytes. */
const CALLER_BUFFER_BYTES = 256 * 1024;
/** Responses with these statuses may not have a body. */
const BODILESS = new Set([101, 204, 205, 304]);

/** The response that an answer goes out with. @param more headers of the gateway's */
export function wholeResponse(head: AnswerHead, whole: Uint8Array, more: Record<string, string>): Response {
  return responseWith(head, whole as Uint8Array<ArrayBuffer>, more);
}

export function streamedResponse(
  head: AnswerHead,
  source: UnderlyingSource<Uint8Array>,
  more: Record<string, string>,
): Response {
  const strategy = new ByteLengthQueuingStrategy({ highWaterMark: CALLER_BUFFER_BYTES });
  return responseWith(head, new ReadableStream<Uint8Array>(source, strategy), more);
}

function responseWith(head: AnswerHead, body: BodyInit, more: Record<string, string>): Response {
  // That name is the relay's own.
  const { [BROKEN_HEADER]: _, ...headers } = head.headers;
  const init: ResponseInit = { status: head.status, headers: { ...headers, ...more } };
  // A body that the engine compressed is as its caller should get it.
  if (headers['content-encoding']) init.encodeBody = 'manual';
  return new Response(BODILESS.has(head.status) ? null : body, init);
}

export function sinkOf(
  controller: ReadableStreamDefaultController<Uint8Array>,
  { dialect = 'openai' }: AnswerHead,
): CallerSink {
  return {
    write: (data) => {
      quietly(() => controller.enqueue(data));
      return (controller.desiredSize ?? 0) > 0;
    },
    end: () => quietly(() => controller.close()),
    abort: (reason, mayAddEvent) => {
      if (!mayAddEvent) {
        controller.error(new Error(reason.message));
        return;
      }
      quietly(() => controller.enqueue(brokenEvents(reason, dialect)));
      quietly(() => controller.close());
    },
  };
}

export function brokenResponse(reason: BrokenReason): Response {
  return new Response(null, { status: 502, headers: { [BROKEN_HEADER]: asciiJson(reason) } });
}

/** Sockets and responses that are gone throw on use; their close and cancel events tell the same. */
export function quietly(use: () => void): void {
  try {
    use();
  } catch {
    // Told by the close or cancel event.
  }
}
