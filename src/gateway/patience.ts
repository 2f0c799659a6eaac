/**
 * A silent request whose caller has hung up looks like one whose caller waits: the runtime notices an orderly
 * close only when it writes. So the answer to a request that is not streamed and takes long is begun early,
 * with blanks, which JSON allows before its value.
 */

/** A running request is begun after this long, ms. Engines refuse bad requests within a second of taking them. */
const BEGIN_AFTER_MS = 10_000;
/** Time between blanks, ms; two of them show a caller gone. */
const BLANK_EVERY_MS = 2000;
const BLANK = new TextEncoder().encode('\n');

export interface PatienceParts {
  sleep(ms: number): Promise<void>;
  /** The caller is gone: stop what is done for it. */
  hangUp(): void;
}

/**
 * The answer itself when it comes soon, else a 200 that is begun now and whose body follows. What turns out to
 * be an error after that can only be shown by breaking the connection, which clients take for a reason to retry.
 * @param running resolves when a worker has the request; waiting for a worker is not begun early, since it
 *   may still end in a 503
 */
export async function answerPatiently(
  answered: Promise<Response>,
  running: Promise<void>,
  headers: Record<string, string>,
  parts: PatienceParts,
): Promise<Response> {
  const overdue = running.then(() => parts.sleep(BEGIN_AFTER_MS));
  const first = await Promise.race([answered, overdue]);
  if (first) return first;
  let over = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      void blanks(controller, () => over, parts);
      const finished = answered.then((response) => finish(controller, response));
      void finished
        .catch((error) => controller.error(error))
        .finally(() => {
          over = true;
        });
    },
    cancel: () => {
      over = true;
      parts.hangUp();
    },
  });
  return new Response(body, { status: 200, headers: { 'content-type': 'application/json', ...headers } });
}

async function blanks(
  controller: ReadableStreamDefaultController<Uint8Array>,
  isOver: () => boolean,
  parts: PatienceParts,
): Promise<void> {
  while (!isOver()) {
    controller.enqueue(BLANK);
    await parts.sleep(BLANK_EVERY_MS);
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
