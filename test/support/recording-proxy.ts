import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** One request that went through, and its answer as far as it came. */
export interface Recorded {
  method: string;
  path: string;
  body: string;
  status: number;
  answer: string;
}

/** Stands between a client that tells little and a queue, and keeps what both said. */
export class RecordingProxy {
  readonly seen: Recorded[] = [];
  /** What is set in each body that is JSON, whatever the client wrote. */
  set: object = {};
  readonly #target: string;
  readonly #server = createServer((request, response) => void this.#pass(request, response));

  constructor(target: string) {
    this.#target = target;
  }

  /** @returns its address */
  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/' } = request;
    const sent = await text(request);
    const body = sent === '' ? '' : JSON.stringify({ ...(JSON.parse(sent) as object), ...this.set });
    const recorded: Recorded = { method, path: url, body, status: 0, answer: '' };
    this.seen.push(recorded);
    const answer = await fetch(this.#target + url, {
      method,
      headers: { 'content-type': request.headers['content-type'] ?? 'application/json' },
      ...(recorded.body !== '' && { body: recorded.body }),
    });
    recorded.status = answer.status;
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    const decoder = new TextDecoder();
    for await (const piece of answer.body ?? []) {
      recorded.answer += decoder.decode(piece as Uint8Array, { stream: true });
      response.write(piece);
    }
    response.end();
  }
}
