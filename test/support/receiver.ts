import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { bodyOf } from './request-body.ts';

/** The content of a post. */
interface Received {
  path: string;
  authorization: string | undefined;
  body: Record<string, unknown>;
  /** The status of its answer; null: it was not answered. */
  status: number | null;
}

/** A server that takes posts of JSON, in its own way of answering. */
export interface Receiver {
  url: string;
  posts: Received[];
  /** The status of the next answers; null leaves callers waiting. */
  status: number | null;
  stop(): Promise<void>;
}

export async function startReceiver({
  port = 0,
  status = 200,
}: {
  port?: number;
  status?: number | null;
} = {}): Promise<Receiver> {
  const posts: Received[] = [];
  const server = createServer(async (request, response) => {
    const sent = await bodyOf(request);
    if (sent === null) return;
    const { url: path = '', headers } = request;
    const body = JSON.parse(sent);
    posts.push({ path, authorization: headers.authorization, body, status: receiver.status });
    if (receiver.status !== null) response.writeHead(receiver.status).end('{}');
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    posts,
    status,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}
