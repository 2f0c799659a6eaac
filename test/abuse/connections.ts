import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** Raw connections: what no HTTP client would do. */
export class Connections {
  readonly #sockets = new Set<Socket>();
  readonly #port: number;
  /** Bytes that came back, by what they began with; connections that gave nothing are not counted. */
  readonly answers = new Map<string, number>();
  /** Connections the other side ended. */
  ended = 0;

  constructor(port: number) {
    this.#port = port;
  }

  get open(): number {
    return this.#sockets.size;
  }

  /** Rejects nothing: a connection that cannot be made is one that was ended. */
  async dial(text = ''): Promise<Socket> {
    const socket = connect(this.#port, '127.0.0.1');
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.ended += 1;
    });
    socket.once('data', (data) => {
      const status = /^HTTP\/1\.1 (\d+)/.exec(data.toString('latin1'))?.[1] ?? 'other bytes';
      this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
    });
    await once(socket, 'connect').catch(() => {});
    if (text) socket.write(text);
    return socket;
  }

  async dialMany(count: number, text = ''): Promise<Socket[]> {
    const sockets: Socket[] = [];
    // The listening queue of the other side is short.
    for (let at = 0; at < count; at += 100) {
      const batch = Array.from({ length: Math.min(100, count - at) }, () => this.dial(text));
      sockets.push(...(await Promise.all(batch)));
    }
    return sockets;
  }

  /** Resets them, as a crashed client's machine would. */
  resetAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }
}

/** The head of a request that says it brings `length` bytes. */
export function head(method: string, path: string, port: number, length: number): string {
  return `${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
}
