import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { cli, startQueue, untilReady } from './road.ts';

/**
 * An engine whose answers the test writes byte by byte, whatever HTTP makes of them: a plain OpenAI server for
 * `/v1/models` and a worker's first request, and for everything else what `answer` says.
 */
export class OddEngine {
  /** Writes the raw answer to a request, head included. */
  answer: (socket: Socket, request: string) => void = (socket) => socket.end();
  /** First line of each request but those for the models. */
  readonly asked: string[] = [];
  /** The names that it answers to. */
  served = ['tiny'];
  readonly #server = createServer((socket) => this.#serve(socket));
  readonly #sockets = new Set<Socket>();

  /** @returns its address */
  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    let received = '';
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('data', (data) => {
      received += data.toString('latin1');
      const [head, body] = received.split('\r\n\r\n', 2) as [string, string | undefined];
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (body === undefined || received.length < head.length + 4 + length) return;
      const request = received;
      received = '';
      if (request.startsWith('GET /v1/models '))
        socket.write(plain(JSON.stringify({ data: this.served.map((id) => ({ id })) })));
      else if (request.startsWith('GET ')) socket.write(plain('{}', 'HTTP/1.1 404 Not Found'));
      else if (request.includes('x-request-id: first\r\n'))
        socket.write(plain('{"choices":[{"text":"Hi"}]}'));
      else {
        this.asked.push(request.split('\r\n', 1)[0]!);
        this.answer(socket, request);
      }
    });
  }
}

/** A whole answer in JSON. */
export function plain(json: string, head = 'HTTP/1.1 200 OK'): string {
  return `${head}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`;
}

/** The same with any body; the connection closes behind it. */
export function rawAnswer(head: string[], body: string | Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), Buffer.from(body)]);
}

/** A road to an engine whose answers the test writes. @returns the queue's address */
export async function roadTo(engine: OddEngine): Promise<string> {
  const engineUrl = await engine.listen();
  const { url } = await startQueue();
  cli(['work'], {
    ENGINE_URL: engineUrl,
    CASOLA_WS_URL: url.replace(/^http/, 'ws'),
    CASOLA_CONFIG_ID: 'cfg',
    CASOLA_INSTANCE_ID: 'odd',
    CASOLA_MAX_JOBS: '8',
  });
  await untilReady(url, 'odd');
  return url;
}
