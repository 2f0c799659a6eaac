import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type WebSocket as ServerSocket, WebSocketServer } from 'ws';
import type { FleetFrame, FleetView } from '../../../src/protocol/index.ts';
import { FleetFeed } from '../../../src/show/fleet-feed.ts';
import { until } from '../../support/poll.ts';

const VIEW = {
  version: 4,
  epoch: 'e',
  at: 1000,
  workers: [],
  pools: [],
  launches: [],
} as unknown as FleetView;
const DENIED = new Error('another token, please');

/** The queue's side: the sockets that were opened, and what came on them. */
let queue: {
  accepts: boolean | 'in silence';
  sockets: ServerSocket[];
  heard: unknown[];
  reads: number;
  url: string;
};
/** What `read` throws; null: it answers. */
let trouble: Error | null;
let states: string[];
let views: FleetView[];
let feed: FleetFeed;
/** Connections of dials that nobody answers. */
let dialled: Duplex[];
let close: () => void;

beforeEach(async () => {
  const server = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    if (queue.accepts === 'in silence') return void dialled.push(socket);
    if (!queue.accepts) return socket.end('HTTP/1.1 426 Upgrade Required\r\n\r\n');
    sockets.handleUpgrade(request, socket, head, (opened) => {
      queue.sockets.push(opened);
      opened.on('message', (data) => queue.heard.push(JSON.parse(String(data))));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  queue = { accepts: true, sockets: [], heard: [], reads: 0, url: `ws://127.0.0.1:${port}` };
  [trouble, states, views, dialled] = [null, [], [], []];
  feed = new FleetFeed({
    open: () => new WebSocket(queue.url),
    read: async () => {
      queue.reads += 1;
      if (trouble) throw trouble;
      return VIEW;
    },
    isDenied: (error) => error === DENIED,
    onView: (view) => views.push(view),
    onConfirmed: () => {},
    onState: (state) => states.push(state),
  });
  close = () => {
    feed.stop();
    for (const socket of queue.sockets) socket.terminate();
    for (const socket of dialled) socket.destroy();
    server.close();
    server.closeAllConnections();
  };
});
afterEach(() => close());

const say = (frame: unknown) => queue.sockets.at(-1)!.send(JSON.stringify(frame));
const full: FleetFrame = { type: 'full', view: VIEW };

it('says after a break what it knows, and asks for all of it when a frame is missing before one that came', async () => {
  feed.start();
  await until(() => queue.heard.length === 1, 'it watches');
  say({ type: 'changed', version: 9 });
  await until(() => queue.heard.length === 2, 'it asks again');
  say(full);
  await until(() => states.at(-1) === 'live', 'it is live');
  queue.sockets[0]!.terminate();
  await until(() => queue.heard.length === 3, 'it is back');
  expect(queue.heard).toEqual([
    { type: 'watch' },
    { type: 'watch' },
    { type: 'watch', epoch: 'e', version: 4 },
  ]);
  expect(states).toEqual(['live', 'lost']);
});

it('shows what was read beforehand, and wants only what came since', async () => {
  feed.start(VIEW);
  expect(views).toEqual([VIEW]);
  await until(() => queue.heard.length === 1, 'it watches');
  expect(queue.heard).toEqual([{ type: 'watch', epoch: 'e', version: 4 }]);
  expect(states).toEqual(['connecting']);
});

it('asks for the view where no socket can be opened', async () => {
  queue.accepts = false;
  feed.start();
  await until(() => queue.reads >= 2 && states.at(-1) === 'polling', 'it polls');
  expect(views.at(-1)).toEqual(VIEW);
});

it('tries no more with a token that is refused, until it is told to', async () => {
  queue.accepts = false;
  trouble = DENIED;
  feed.start();
  await until(() => states.at(-1) === 'denied', 'it is denied');
  queue.accepts = true;
  feed.retry();
  await until(() => queue.heard.length === 1, 'it watches');
});

it('wants nothing while nobody looks', async () => {
  feed.start();
  await until(() => queue.heard.length === 1, 'it watches');
  say(full);
  await until(() => views.length === 1, 'the view has come');
  feed.hide();
  feed.show();
  await until(() => queue.heard.length === 3, 'it has paused and watched again');
  expect(queue.heard.slice(1)).toEqual([{ type: 'pause' }, { type: 'watch', epoch: 'e', version: 4 }]);
});

it('gives a dial up that nobody answers, and says that the queue does not answer', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    queue.accepts = 'in silence';
    trouble = new Error('it hangs');
    feed.start();
    await until(() => dialled.length === 1, 'it dials');
    expect(states).toEqual([]);
    vi.advanceTimersByTime(10_000);
    await until(() => states.at(-1) === 'lost', 'it says so');
  } finally {
    vi.useRealTimers();
  }
});
