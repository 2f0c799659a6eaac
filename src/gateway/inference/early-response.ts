import { responseTo } from '../errors.ts';

/**
 * A request whose caller has hung up looks like one whose caller still waits: the runtime notices an orderly
 * close only when it writes. So an answer that takes long starts early: a stream with comments, any other
 * with blanks, which JSON allows before its value.
 */

/** A response starts after this long, ms. Engines reject bad requests within a second of accepting them. */
const BEGIN_AFTER_MS = 10_000;
/** Time between blanks, ms; two of them show a caller gone. */
const BLANK_EVERY_MS = 2000;
const encoder = new TextEncoder();
const BLANK = encoder.encode('\n');
const COMMENT = encoder.encode(': waiting\n\n');

export interface EarlyResponsePorts {
  sleep(ms: number): Promise<void>;
  /** The caller is gone: stop what is done for it. */
  hangUp(): void;
}

/**
 * The answer to a request for a stream when it comes soon, else an event stream that is begun now, while the
 * caller may still wait for a worker. What turns out to be an error after that is its only event.
 */
export async function streamEarly(
  answered: Promise<Response>,
  headers: Record<string, string>,
  ports: EarlyResponsePorts,
): Promise<Response> {
  const first = await Promise.race([answered, ports.sleep(BEGIN_AFTER_MS)]);
  if (first) return first;
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const told = answered.catch((error: Error) => responseTo(error));
  // A write that fails is the caller gone, and so is every one after it.
  void streamLate(writable, told, ports).catch(() => ports.hangUp());
  const type = { 'content-type': 'text/event-stream; charset=utf-8' };
  return new Response(readable, { status: 200, headers: { ...type, ...headers } });
}

async function streamLate(
  writable: WritableStream<Uint8Array>,
  answered: Promise<Response>,
  ports: EarlyResponsePorts,
): Promise<void> {
  const writer = writable.getWriter();
  const nothingYet = () => ports.sleep(BLANK_EVERY_MS).then(() => null);
  let response: Response | null = null;
  while (!response) {
    await writer.write(COMMENT);
    response = await Promise.race([answered, nothingYet()]);
  }
  if (response.ok && response.body) {
    writer.releaseLock();
    await response.body.pipeTo(writable);
    return;
  }
  await writer.write(encoder.encode(`data: ${await response.text()}\n\ndata: [DONE]\n\n`));
  await writer.close();
}

/**
 * The answer itself when it comes soon, else a 200 that is begun now and whose body follows. What turns out to
 * be an error after that can only be shown by breaking the connection, which clients take for a reason to retry.
 * @param running resolves when a worker has the request; waiting for a worker is not begun early, since it
 *   may still end in a 503
 */
export async function answerEarly(
  answered: Promise<Response>,
  running: Promise<void>,
  headers: Record<string, string>,
  ports: EarlyResponsePorts,
): Promise<Response> {
  const overdue = running.then(() => ports.sleep(BEGIN_AFTER_MS));
  const first = await Promise.race([answered, overdue]);
  if (first) return first;
  let over = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      void blanks(controller, () => over, ports);
      const finished = answered.then((response) => finish(controller, response));
      void finished
        .catch((error) => controller.error(error))
        .finally(() => {
          over = true;
        });
    },
    cancel: () => {
      over = true;
      ports.hangUp();
    },
  });
  return new Response(body, { status: 200, headers: { 'content-type': 'application/json', ...headers } });
}

async function blanks(
  controller: ReadableStreamDefaultController<Uint8Array>,
  isOver: () => boolean,
  ports: EarlyResponsePorts,
): Promise<void> {
  while (!isOver()) {
    controller.enqueue(BLANK);
    await ports.sleep(BLANK_EVERY_MS);
  }
}

async function finish(
  controller: ReadableStreamDefaultController<Uint8Array>,
  response: Response,
): Promise<void> {
  const body = new Uint8Array(await response.arrayBuffer());
  if (!response.ok) throw new Error(`the engine's answer came late and is an error (${response.status})`);
  controller.enqueue(body);
  controller.close();
}
