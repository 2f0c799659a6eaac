import { Agent } from 'undici';
import WebSocket from 'ws';

/**
 * The worker's processor time is held against this Node program, which asks the engine for each job, and writes each
 * chunk that it reads to the socket. Arguments: the address of the bare queue, that of the engine.
 */
const [bareUrl, engineUrl] = process.argv.slice(2) as [string, string];
const agent = new Agent({ connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
const socket = new WebSocket(bareUrl.replace('http', 'ws'), { perMessageDeflate: false });

socket.on('open', () => process.stdout.write('ready\n'));
socket.on('close', () => process.exit(0));
socket.on('message', (message) => {
  const { id, body } = JSON.parse(String(message)) as { id: number; body: string };
  const head = Buffer.alloc(4);
  head.writeUInt32BE(id);
  const request = {
    origin: engineUrl,
    path: '/v1/chat/completions',
    method: 'POST' as const,
    headers: { 'content-type': 'application/json' },
    body,
  };
  agent.dispatch(request, {
    onRequestStart: () => {},
    onResponseStart: () => {},
    onResponseData: (_controller, chunk) => socket.send(Buffer.concat([head, chunk])),
    onResponseEnd: () => socket.send(JSON.stringify({ id })),
    onResponseError: (_controller, error) => {
      throw error;
    },
  });
});
