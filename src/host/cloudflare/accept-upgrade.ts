import { quietly } from '../../durable/host.ts';
import type { ServerSocket } from '../../gateway/env.ts';

/** Opens the gateway's end of a WebSocket. */
export function acceptUpgrade(): { socket: ServerSocket; response: Response } {
  const { 0: client, 1: server } = new WebSocketPair();
  server.accept();
  const socket: ServerSocket = {
    listen: ({ message, closed }) => {
      server.addEventListener('message', ({ data }) => message(data));
      server.addEventListener('close', closed);
      server.addEventListener('error', closed);
    },
    send: (text) => quietly(() => server.send(text)),
    close: (code, reason) => quietly(() => server.close(code, reason)),
  };
  return { socket, response: new Response(null, { status: 101, webSocket: client }) };
}
