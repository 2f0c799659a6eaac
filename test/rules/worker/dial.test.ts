import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { dialWebSocket } from '../../../src/worker/session/dial.ts';
import type { SocketClose } from '../../../src/worker/session/socket.ts';
import { until } from '../../support/poll.ts';

let server: Server | null = null;

afterEach(() => server?.close());

async function listen(onPeer: (peer: WebSocket, authorization: string | undefined) => void): Promise<string> {
  server = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    if (request.url === '/refused') {
      socket.end('HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n');
      return;
    }
    if (request.url === '/explained') {
      const body = JSON.stringify({ error: { message: 'No queue "x" here: set QUEUE_IDS.' } });
      socket.end(`HTTP/1.1 404 Not Found\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, (peer) => onPeer(peer, request.headers.authorization));
  });
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Dials and keeps a record of what happens. */
function dial(url: string) {
  const seen: string[] = [];
  const closes: SocketClose[] = [];
  const socket = dialWebSocket(
    { url, token: 'secret' },
    {
      opened: () => seen.push('opened'),
      text: (text) => seen.push(text),
      binary: (data) => seen.push(`${data.byteLength} bytes`),
      frame: () => {},
      pong: () => seen.push('pong'),
      closed: (close) => closes.push(close),
    },
  );
  return { socket, seen, closes };
}

test('a dialled socket carries the token, text, bytes, pings and the way it was closed', async () => {
  const got: unknown[] = [];
  const url = await listen((peer, authorization) => {
    got.push(authorization);
    peer.on('message', (data, isBinary) => peer.send(data, { binary: isBinary }));
    peer.on('close', (code) => got.push(code));
  });
  const { socket, seen, closes } = dial(url);
  await until(() => seen.includes('opened'), 'the socket is open');
  socket.send('hello');
  socket.send(new Uint8Array(3));
  socket.ping();
  await until(() => seen.length === 4, 'all came back');
  expect(seen.toSorted()).toEqual(['3 bytes', 'hello', 'opened', 'pong']);
  socket.close(1000, 'done');
  await until(() => closes.length === 1 && got.length === 2, 'both ends know');
  expect(closes).toEqual([{ code: 1000, reason: 'done' }]);
  expect(got).toEqual(['Bearer secret', 1000]);
});

/** The masking key of the first frame that a peer gets from who dials it by this host. */
async function firstKey(host: string): Promise<Buffer> {
  let bytes = Buffer.alloc(0);
  const url = await listen((peer) => {
    const { _socket: tcp } = peer as WebSocket & { _socket: Socket };
    tcp.on('data', (data: Buffer) => {
      bytes = Buffer.concat([bytes, data]);
    });
  });
  const { socket, seen } = dial(url.replace('127.0.0.1', host));
  await until(() => seen.includes('opened'), 'the socket is open');
  socket.send(new Uint8Array(3));
  await until(() => bytes.length >= 9, 'the frame came');
  expect(bytes[1]).toBe(0x80 + 3);
  return bytes.subarray(2, 6);
}

test('frames carry a key of zeros over loopback, and a random one where a proxy might read along', async () => {
  expect(await firstKey('127.0.0.1')).toEqual(Buffer.alloc(4));
  server?.close();
  // On Linux the same machine, under a name that is no loopback.
  expect(await firstKey('0.0.0.0')).not.toEqual(Buffer.alloc(4));
});

test("the peer's close code and reason arrive", async () => {
  const { closes } = dial(await listen((peer) => peer.close(4401, 'who are you')));
  await until(() => closes.length === 1, 'the socket is closed');
  expect(closes).toEqual([{ code: 4401, reason: 'who are you' }]);
});

test('a queue that says why it takes no connection is quoted', async () => {
  const { closes } = dial(`${await listen(() => {})}/explained`);
  await until(() => closes.length === 1, 'it is closed');
  expect(closes[0]).toMatchObject({
    httpStatus: 404,
    reason: 'HTTP 404 Not Found: No queue "x" here: set QUEUE_IDS.',
    explanation: 'No queue "x" here: set QUEUE_IDS.',
  });
});

test('an upgrade refused by HTTP closes once, with the status', async () => {
  const { closes, seen } = dial(`${await listen(() => {})}/refused`);
  await until(() => closes.length === 1, 'the dial has failed');
  expect(closes).toEqual([{ code: 1006, reason: 'HTTP 401 Unauthorized', httpStatus: 401 }]);
  expect(seen).toEqual([]);
});

test('an address where nobody listens closes once, with the reason', async () => {
  const url = await listen(() => {});
  server?.close();
  const { closes } = dial(url);
  await until(() => closes.length === 1, 'the dial has failed');
  expect(closes[0]).toMatchObject({ code: 1006, reason: expect.stringContaining('ECONNREFUSED') });
});
