import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Passing {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
}

/** What is answered in place of an answer that the store has given, or without asking it. */
interface Instead {
  status: number;
  code: string;
}

/** An HTTP server in front of an object store that does not check signatures, which changes what passes. */
export class AlteredStore {
  readonly #server: Server;
  readonly #target: number;
  /** Changes a request on its way. @returns what is answered without asking the store; undefined: the store is asked */
  onRequest: (passing: Passing) => Instead | undefined = () => undefined;
  /** Changes the headers of an answer. @returns what is answered in its place, although the store has done it */
  onAnswer: (passing: Passing, headers: IncomingHttpHeaders) => Instead | undefined = () => undefined;

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer(async (incoming, outgoing) => {
      const { method = '', url: path = '', headers } = incoming;
      const passing = { method, path, headers: { ...headers } };
      const answer = ({ status, code }: Instead) =>
        outgoing.writeHead(status).end(method === 'HEAD' ? '' : `<Error><Code>${code}</Code></Error>`);
      const instead = this.onRequest(passing);
      if (instead) return void incoming.resume().on('end', () => answer(instead));
      const asked = request({ port: this.#target, host: '127.0.0.1', ...passing }, (given) => {
        const lost = this.onAnswer(passing, given.headers);
        if (lost) return void given.resume().on('end', () => answer(lost));
        outgoing.writeHead(given.statusCode!, given.headers);
        given.pipe(outgoing);
      });
      asked.on('error', () => outgoing.destroy());
      incoming.pipe(asked);
    });
  }

  static async before(target: number): Promise<AlteredStore> {
    const store = new AlteredStore(target);
    await new Promise<void>((listening) => store.#server.listen(0, '127.0.0.1', listening));
    return store;
  }

  /** The variable with which a journal reaches it. */
  get env(): { AWS_ENDPOINT_URL: string } {
    return { AWS_ENDPOINT_URL: `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` };
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}
