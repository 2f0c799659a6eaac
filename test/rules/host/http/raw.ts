import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { createServer, type RunningServer, type ServerParts } from '../../../../src/host/node/http/server.ts';
import { until } from '../../../support/poll.ts';

/** A server on a port of its own, until the test has ended. */
export async function serving(
  fetch: ServerParts['fetch'],
  direct?: ServerParts['direct'],
): Promise<RunningServer> {
  const server = await createServer({ fetch, host: '127.0.0.1', port: 0, ...(direct && { direct }) });
  onTestFinished(() => server.close(0));
  return server;
}

/** A caller on a bare socket. */
export interface Raw {
  socket: Socket;
  heard(): string;
  /** Resolves once this has been heard. */
  hears(text: string | RegExp): Promise<void>;
  /** Resolves with all that was heard once the server has ended its side. */
  whole(): Promise<string>;
}

/** Connects and sends lines of a request's head, and what follows them. */
export async function raw(port: number, head: readonly string[], body: string | Buffer = ''): Promise<Raw> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  await new Promise<void>((done, failed) => socket.once('connect', done).once('error', failed));
  onTestFinished(() => void socket.destroy());
  let heard = '';
  let hasEnded = false;
  socket.on('error', () => {});
  socket.on('end', () => {
    hasEnded = true;
  });
  socket.on('close', () => {
    hasEnded = true;
  });
  socket.on('data', (bytes) => {
    heard += bytes.toString('latin1');
  });
  if (head.length > 0) socket.write(`${head.join('\r\n')}\r\n\r\n`);
  if (body.length > 0) socket.write(body);
  return {
    socket,
    heard: () => heard,
    hears: async (text) => {
      await until(
        () => (typeof text === 'string' ? heard.includes(text) : text.test(heard)),
        `hears ${text}`,
      );
    },
    whole: async () => {
      await until(() => hasEnded, 'the connection ends');
      return heard;
    },
  };
}
