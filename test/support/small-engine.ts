import { once } from 'node:events';
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, createServer, type Server as NetServer, type Socket } from 'node:net';
import { createEngineClient } from '../../src/engine/client/client.ts';
import type { EngineClient } from '../../src/engine/client/types.ts';
import type { external } from '../../src/engine/kinds/external.ts';

/** Engines of a few lines, and the real client that speaks to them. */

const cleanups: (() => Promise<unknown>)[] = [];

/** For `afterEach`. */
export async function closeEngines(): Promise<void> {
  for (const cleanup of cleanups.splice(0)) await cleanup();
}

export function chat(signal: AbortSignal = new AbortController().signal) {
  return { method: 'POST', path: '/v1/chat/completions', body: '{}', signal };
}

export async function bytes(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts).toString();
}

export async function text(request: IncomingMessage): Promise<string> {
  return bytes(request);
}

export function tidy(client: EngineClient): EngineClient {
  cleanups.unshift(() => client.close());
  return client;
}

export async function listen(server: Server | NetServer): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(async () => void server.close());
  return (server.address() as AddressInfo).port;
}

export async function clientOf(
  handler: (request: IncomingMessage, response: ServerResponse) => unknown,
  engine?: typeof external,
): Promise<EngineClient> {
  const port = await listen(createHttpServer(handler));
  const baseUrl = `http://127.0.0.1:${port}`;
  return tidy(createEngineClient({ baseUrl, apiKey: 'key', engine }));
}

export async function rawServer(
  onSocket: (socket: Socket) => void,
  onServer: (server: NetServer) => void = () => {},
): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    onSocket(socket);
  });
  onServer(server);
  return listen(server);
}

/** Counts the requests whose sockets are open. */
export function trackedServer(begin: (response: ServerResponse) => void) {
  let open = 0;
  return {
    open: () => open,
    handler: (request: IncomingMessage, response: ServerResponse) => {
      open += 1;
      request.resume();
      response.once('close', () => {
        open -= 1;
      });
      begin(response);
    },
  };
}
