import { Agent, type Dispatcher, fetch } from 'undici';
import { reasonOf } from '../../../process/http.ts';
import { chosenProxies } from '../../../process/outgoing.ts';
import { proxyDispatcher } from '../../../process/through-proxies.ts';
import { errorForCallers, explanationIn } from './explanation.ts';
import type { Link } from './link.ts';
import { LINK_PATHS, OBJECT_HEADER } from './messages.ts';

/** The headers that belong to the connection between gateway process and owner. */
const OF_CONNECTION = [
  'connection',
  'date',
  'keep-alive',
  'transfer-encoding',
  'x-request-id',
  OBJECT_HEADER,
];

/** Fetches from the owner what has a body of any length: files, and the answers of stored jobs. */
export class Bodies {
  readonly #link: Link;
  readonly #dispatcher: Dispatcher;

  constructor(link: Link) {
    this.#link = link;
    // The answer of a job may take any time.
    const options = { headersTimeout: 0, bodyTimeout: 0 };
    const choose = chosenProxies();
    this.#dispatcher = choose === null ? new Agent(options) : proxyDispatcher(choose, options);
  }

  /** Responds with the content of a file as the files object does. */
  file(queueId: string, id: string): Promise<Response> {
    return this.#get(LINK_PATHS.file, { queue: queueId, id }, {}, null);
  }

  /** Responds with the answer of a stored job as the owner's relay does. @param more headers beside the engine's */
  replay(
    queueId: string,
    worker: string,
    stream: number,
    more: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Response> {
    return this.#get(LINK_PATHS.replay, { queue: queueId, worker, stream: String(stream) }, more, signal);
  }

  async close(): Promise<void> {
    await this.#dispatcher.destroy();
  }

  async #get(
    path: string,
    query: Record<string, string>,
    more: Record<string, string>,
    signal: AbortSignal | null,
  ): Promise<Response> {
    const url = await this.#link.whenLinked();
    const get = () =>
      fetch(`${url}${path}?${new URLSearchParams(query)}`, {
        headers: this.#link.authorization,
        dispatcher: this.#dispatcher,
        redirect: 'manual',
        signal,
      });
    const again = (error: unknown) => {
      if (signal?.aborted) throw error;
      return get();
    };
    // The connection that was kept for the next request may be one of an owner that is gone.
    const answer = await get()
      .catch(again)
      .catch((error: unknown) => {
        throw Object.assign(new Error(`the queue broke off: ${reasonOf(error)}`), { retryable: true });
      });
    if (!answer.headers.has(OBJECT_HEADER)) {
      const explanation = explanationIn(await answer.text().catch(() => ''));
      const error = errorForCallers(answer.status, explanation, answer.headers.get('retry-after'));
      throw error.code === 'queue_restarting' ? Object.assign(error, { retryable: true }) : error;
    }
    const headers = new Headers([...answer.headers].filter(([name]) => !OF_CONNECTION.includes(name)));
    for (const [name, value] of Object.entries(more)) headers.set(name, value);
    // undici's streams are the platform's.
    return new Response(answer.body as ReadableStream<Uint8Array> | null, { status: answer.status, headers });
  }
}
