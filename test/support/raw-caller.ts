import { connect, type Socket } from 'node:net';

/** A caller on a bare socket, which can leave in either way that TCP has. */
export interface RawCaller {
  /** All that it was sent. */
  heard(): string;
  /** Closes in order (FIN): what most programs do, and what nobody is told of before the next write. */
  close(): void;
  /** Breaks off (RST). */
  reset(): void;
}

/** Sends one request. */
export async function rawCaller(
  url: string,
  path: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<RawCaller> {
  const { hostname, port } = new URL(url);
  const socket: Socket = connect(Number(port), hostname);
  await new Promise<void>((done, failed) => socket.once('connect', done).once('error', failed));
  let heard = '';
  socket.setEncoding('utf8').on('data', (text) => {
    heard += text;
  });
  socket.on('error', () => {});
  const text = JSON.stringify(body);
  const head = [`POST ${path} HTTP/1.1`, `Host: ${hostname}:${port}`, `Content-Length: ${text.length}`];
  for (const [name, value] of Object.entries(headers)) head.push(`${name}: ${value}`);
  socket.write(`${head.join('\r\n')}\r\n\r\n${text}`);
  return {
    heard: () => heard,
    close: () => socket.destroy(),
    reset: () => socket.resetAndDestroy(),
  };
}
