import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { bodyOf } from '../request-body.ts';

interface Asked {
  url: string | undefined;
  headers: IncomingMessage['headers'];
  body: string;
}

export type Answer = (response: ServerResponse) => void;

export const json =
  (body: unknown, status = 200): Answer =>
  (response) =>
    response.writeHead(status).end(JSON.stringify(body));

export const hangUp: Answer = (response) => response.destroy();

const servers: Server[] = [];

export function closeScriptedServers(): void {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
}

/** A server that gives these answers in turn, the last one for good. */
export async function serverWith(...answers: Answer[]): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const body = await bodyOf(request);
    if (body === null) return;
    asked.push({ url: request.url, headers: request.headers, body });
    (answers.length > 1 ? answers.shift()! : answers[0]!)(response);
  });
  servers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}
