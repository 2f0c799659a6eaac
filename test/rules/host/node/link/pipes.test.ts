import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { errorResponse, HttpError, toHttpError } from '../../../../../src/gateway/errors.ts';
import { createServer } from '../../../../../src/host/node/http/server.ts';
import { UpgradeResponse } from '../../../../../src/host/node/http/upgrade.ts';
import { explanationOf } from '../../../../../src/host/node/link/explanation.ts';
import { until } from '../../../../support/poll.ts';
import { closeOpened, linkTo, type Owner, open, startOwner } from './owner.ts';

afterEach(closeOpened);

/** The object's end of each socket that was opened, and what was said of its peer. */
let opened: { dial: unknown; socket: WebSocket }[] = [];

/** A gateway process with its owner. @param refusal what the object says in place of opening a socket */
async function road(refusal?: string): Promise<{ url: string; owner: Owner }> {
  opened = [];
  const connect = async (dial: unknown) => {
    if (refusal === 'throw') throw Object.assign(new Error('it restarts'), { retryable: true });
    if (refusal === 'full') throw new Error('SQLITE_FULL: the disk');
    // So the owner answers where the token of the gateway process is not good any more.
    if (refusal === 'token') throw new HttpError(401, 'This token is not known here.', 'token_unknown');
    if (refusal !== undefined) return new Response(refusal, { status: 503 });
    return new UpgradeResponse((socket) => {
      opened.push({ dial, socket });
      socket.send('said at once');
    });
  };
  const owner = await startOwner({ queue: () => ({ connect }) as never });
  open.push(owner);
  const linked = linkTo([owner.server.url]);
  open.push(linked);
  await linked.link.start();
  const server = await createServer({
    host: '127.0.0.1',
    port: 0,
    fetch: (request) =>
      linked.objects
        .queue('q')
        .connect({ origin: 'o', token: null, price_per_hour: 1 }, request)
        .catch((error: unknown) => errorResponse(toHttpError(error))),
  });
  open.push({ close: () => server.close(0) });
  return { url: server.url.replace('http', 'ws'), owner };
}

async function dial(url: string): Promise<{ peer: WebSocket; heard: (string | Buffer)[] }> {
  const heard: (string | Buffer)[] = [];
  const peer = new WebSocket(url);
  peer.on('message', (data: Buffer, isBinary) => heard.push(isBinary ? data : data.toString()));
  await once(peer, 'open');
  return { peer, heard };
}

it('passes messages both ways, with what the gateway says of the peer', async () => {
  const { url } = await road();
  const { peer, heard } = await dial(url);
  await until(() => heard.length === 1, 'the first message has come');
  expect(heard).toEqual(['said at once']);
  const [{ dial: said, socket }] = opened as [(typeof opened)[0]];
  expect(said).toEqual({ origin: 'o', token: null, price_per_hour: 1 });
  peer.send('text');
  expect((await once(socket, 'message')).map(String)).toEqual(['text', 'false']);
  peer.send(Buffer.from([1, 2]));
  expect(await once(socket, 'message')).toEqual([Buffer.from([1, 2]), true]);
  socket.send(Buffer.from([3]));
  await until(() => heard.length === 2, 'bytes come back');
  expect(heard[1]).toEqual(Buffer.from([3]));
  peer.terminate();
});

it('passes closes on with code and reason', async () => {
  const { url } = await road();
  const { peer } = await dial(url);
  await until(() => opened.length === 1, 'it is open');
  opened[0]!.socket.close(4409, 'another one');
  expect((await once(peer, 'close')).map(String)).toEqual(['4409', 'another one']);
  const other = await dial(url);
  await until(() => opened.length === 2, 'it is open');
  other.peer.close(1000, 'done');
  expect((await once(opened[1]!.socket, 'close')).map(String)).toEqual(['1000', 'done']);
});

it('breaks the object’s end where the peer breaks', async () => {
  const { url } = await road();
  const { peer } = await dial(url);
  await until(() => opened.length === 1, 'it is open');
  peer.terminate();
  expect((await once(opened[0]!.socket, 'close'))[0]).toBe(1006);
});

it('has peers dial again when the owner is gone', async () => {
  const { url } = await road();
  const { peer } = await dial(url);
  await until(() => opened.length === 1, 'it is open');
  opened[0]!.socket.terminate();
  expect((await once(peer, 'close'))[0]).toBe(1012);
});

it('has peers dial again when the link breaks', async () => {
  const { url, owner } = await road();
  const { peer } = await dial(url);
  await until(() => opened.length === 1, 'it is open');
  const closed = once(peer, 'close');
  owner.links.close();
  expect((await closed)[0]).toBe(1012);
  await until(() => opened[0]!.socket.readyState === WebSocket.CLOSED, 'the other end is closed');
});

it.each([
  ['there are enough', { code: null, message: 'there are enough' }],
  ['throw', { code: 'queue_restarting', message: 'The queue is restarting; try again in a moment.' }],
  ['full', { code: 'disk_full', message: expect.stringMatching(/^The disk of the queue's state is full/) }],
  [
    'token',
    {
      code: 'queue_restarting',
      message: 'The queue does not take what its gateway requests (HTTP 401); try again in a moment.',
    },
  ],
])('answers a peer that the object does not take (%s)', async (refusal, explanation) => {
  const { url } = await road(refusal);
  const peer = new WebSocket(url);
  const [, response] = (await once(peer, 'unexpected-response')) as [unknown, IncomingMessage];
  expect(response.statusCode).toBe(503);
  if (explanation.code !== null) expect(response.headers['retry-after']).toMatch(/^\d+$/);
  expect(await explanationOf(response)).toEqual(explanation);
  peer.on('error', () => {}).terminate();
});

it('does not read on for a peer that does not read', async () => {
  const { url } = await road();
  const { peer } = await dial(url);
  await until(() => opened.length === 1, 'it is open');
  const { socket } = opened[0]!;
  peer.pause();
  const piece = Buffer.alloc(1024 * 1024, 7);
  for (let sent = 0; sent < 64; sent++) socket.send(piece);
  const other = await dial(url);
  await until(() => opened.length === 2, 'another pipe is open');
  opened[1]!.socket.on('message', () => opened[1]!.socket.send('back'));
  // Whatever does not wait for the peer has had time to leave by then.
  for (let round = 1; round <= 300; round++) {
    other.peer.send('there');
    await until(() => other.heard.length === round + 1, 'it comes back', { everyMs: 1 });
  }
  expect(socket.bufferedAmount).toBeGreaterThan(16 * piece.length);
  other.peer.terminate();
  let bytes = 0;
  peer.on('message', (data: Buffer) => {
    bytes += data.length;
  });
  peer.resume();
  await until(() => bytes === 64 * piece.length, 'all bytes arrive');
  peer.terminate();
});
