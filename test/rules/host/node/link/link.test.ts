import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { afterEach, expect, it, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { onceMore } from '../../../../../src/asking/once-more.ts';
import { UpgradeResponse } from '../../../../../src/host/node/http/upgrade.ts';
import { explanationOf } from '../../../../../src/host/node/link/explanation.ts';
import { encode, OBJECT_HEADER, OPENED_HEADER } from '../../../../../src/host/node/link/messages.ts';
import { until } from '../../../../support/poll.ts';
import { closeOpened, linked, linkTo, open, owner, startOwner } from './owner.ts';

afterEach(async () => {
  vi.useRealTimers();
  await closeOpened();
});

it('welcomes a gateway process with its number and the settings', async () => {
  const { server } = await owner({});
  const { link, welcomes } = await linked([server.url]);
  expect(link.home).toBeGreaterThan(0);
  expect(link.away).toBeNull();
  expect(welcomes).toEqual([
    {
      type: 'welcome',
      home: link.home,
      bindings: { TOKENS: '[]', FILE_KEY_SECRET: 'secret' },
      peers_secret: 'peers',
    },
  ]);
});

it('tells each process of the others, at the addresses where they are reached', async () => {
  const { server } = await owner({});
  const one = await linked([server.url], { instance: 'one', address: 'one.internal:80' });
  const two = await linked([server.url], { instance: 'two', port: 4321 });
  const both = [
    { home: one.link.home, instance: 'one', address: 'one.internal:80' },
    { home: two.link.home, instance: 'two', address: '127.0.0.1:4321' },
  ];
  await until(() => one.pushes.length === 2, 'the first is told of the second');
  expect(one.pushes.at(-1)).toEqual({ type: 'peers', peers: both });
  two.link.close();
  await until(() => one.pushes.length === 3, 'the first is told that the second is gone');
  expect(one.pushes.at(-1)).toEqual({ type: 'peers', peers: both.slice(0, 1) });
});

it('asks an object, and gets its answers and errors', async () => {
  const seen: unknown[] = [];
  const { server } = await owner({
    get: async (...asked: unknown[]) => {
      seen.push(asked);
      return { id: asked[0] };
    },
    cancel: async () => {
      throw Object.assign(new Error('SQLITE_FULL: the disk'), { retryable: false });
    },
    list: async () => () => 'a function',
  });
  const { objects } = await linked([server.url]);
  const queue = objects.queue('q');
  expect(await queue.get('a', null)).toEqual({ id: 'a' });
  expect(seen).toEqual([['a', null]]);
  await expect(queue.cancel('a', 'cancelled', null)).rejects.toMatchObject({
    message: 'SQLITE_FULL: the disk',
    retryable: false,
  });
  await expect(queue.list({} as never)).rejects.toThrow('could not be cloned');
  await expect(queue.retry('a', null)).rejects.toThrow('another version calls queue.retry');
  // Nothing of JavaScript's own is a call.
  const inherited = queue as unknown as { toLocaleString(): Promise<unknown> };
  await expect(inherited.toLocaleString()).rejects.toThrow('another version calls queue.toLocaleString');
});

it('says what an object said after another was asked, in any order', async () => {
  const answers: ((answer: string) => void)[] = [];
  const { server } = await owner({ get: () => new Promise((resolve) => answers.push(resolve)) });
  const { objects } = await linked([server.url]);
  const first = objects.queue('q').get('a', null);
  const second = objects.queue('q').get('b', null);
  await until(() => answers.length === 2, 'both have arrived');
  answers[1]!('two');
  expect(await second).toBe('two');
  answers[0]!('one');
  expect(await first).toBe('one');
});

it('breaks pending calls when the link breaks, and has new ones wait for the next owner', async () => {
  const first = await owner({ get: () => new Promise(() => {}) });
  const { link, objects } = await linked([first.server.url]);
  const { home } = link;
  const pending = objects.queue('q').get('a', null);
  await until(() => link.away === null, 'it is linked');
  await first.close();
  await expect(pending).rejects.toMatchObject({ retryable: true });
  await until(() => link.away !== null, 'it is away');
  expect(link.away).toMatchObject({ refuses: false });
  const waiting = objects.queue('q').get('b', null);
  const { server } = await owner({ get: async (id: string) => `${id} answered` }, first.server.port);
  expect(await waiting).toBe('b answered');
  expect(server.port).toBe(first.server.port);
  // A worker addresses answers by the number.
  expect(link.home).toBe(home);
});

it('asks for a worker again over several links, with what is left of its deadline', async () => {
  const asked: { job_id: string; deadline_ms: number; home: number }[] = [];
  const never = {
    request: (one: (typeof asked)[0]) => {
      asked.push(one);
      return new Promise(() => {});
    },
  };
  const first = await owner(never);
  const { link, objects } = await linked([first.server.url]);
  const answer = objects.queue('q').request({ job_id: 'j', deadline_ms: 60_000 } as never);
  await until(() => asked.length === 1, 'the first owner is asked');
  await first.close();
  const second = await owner(never, first.server.port);
  await until(() => asked.length === 2, 'the second owner is asked');
  await second.close();
  await owner({ request: async (one: unknown) => ({ kind: 'answered', one }) }, first.server.port);
  const last = (await answer) as unknown as { one: (typeof asked)[0] };
  expect([...asked, last.one].map(({ job_id, home }) => [job_id, home])).toEqual(
    Array.from({ length: 3 }, () => ['j', link.home]),
  );
  expect(last.one.deadline_ms).toBeLessThan(asked[1]!.deadline_ms);
  expect(asked[1]!.deadline_ms).toBeLessThan(asked[0]!.deadline_ms);
});

it('has a listener name its jobs again whose news may be lost with the link', async () => {
  const first = await owner({ nextSettled: () => new Promise(() => {}) });
  const { link, objects } = await linked([first.server.url]);
  const news = objects.queue('q').nextSettled('l', 1000);
  await until(() => link.away === null, 'it is linked');
  await first.close();
  const left: string[] = [];
  await owner({ leaveListener: async (id: string) => void left.push(id) }, first.server.port);
  expect(await news).toEqual({ listener: 'unknown', jobs: [] });
  expect(left).toEqual(['l']);
});

it('refuses calls once the link has been away for 30 seconds', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance', 'setTimeout', 'clearTimeout'] });
  const { link, objects } = linkTo(['http://127.0.0.1:1']);
  const waiting = objects.queue('q').get('a', null);
  const refused = expect(waiting).rejects.toMatchObject({
    status: 503,
    code: 'queue_away',
    headers: { 'retry-after': '5' },
    message: expect.stringMatching(/no connection to its queue since \d{4}-/),
  });
  vi.advanceTimersByTime(10_000);
  // Somebody sets the clock, which changes nothing.
  vi.setSystemTime(Date.now() - 3_600_000);
  await expect(Promise.race([objects.queue('q').get('c', null), 'waits'])).resolves.toBe('waits');
  vi.setSystemTime(Date.now() + 7_200_000);
  vi.advanceTimersByTime(19_999);
  expect(link.away).toMatchObject({ refuses: false });
  vi.advanceTimersByTime(1);
  await refused;
  expect(link.away).toMatchObject({ refuses: true });
  await expect(objects.queue('q').get('b', null)).rejects.toMatchObject({ code: 'queue_away' });
});

it('turns to another owner when its own must not be asked, and asks that one what was not answered', async () => {
  let problem: Error | null = null;
  const first = await startOwner(
    { queue: () => ({ get: () => new Promise(() => {}) }) as never },
    0,
    () => problem,
  );
  open.push(first);
  const second = await owner({ get: async () => 'of the second' });
  const { link, objects, welcomes } = await linked([first.server.url, second.server.url]);
  const asked = onceMore(() => objects.queue('q').get('a', null));
  problem = new Error('the lease has run out');
  first.links.pause('its lease has run out');
  expect(await asked).toBe('of the second');
  expect(await link.whenLinked()).toBe(second.server.url);
  expect(welcomes).toHaveLength(2);
  // It is asked again once it may be.
  problem = null;
  await second.close();
  await until(() => welcomes.length === 3, 'the first one is linked again');
});

it('passes over an owner that is none, and one that does not answer', async () => {
  const mute = createTcpServer(() => {}).listen(0, '127.0.0.1');
  open.push({ close: async () => void mute.close() });
  await until(() => mute.listening, 'it listens');
  const { port } = mute.address() as { port: number };
  const { server } = await owner({});
  const { link, lines } = await linked(['http://127.0.0.1:1', `http://127.0.0.1:${port}`, server.url]);
  expect(link.away).toBeNull();
  expect(lines.join('\n')).toContain('the queue at http://127.0.0.1:1 cannot be reached');
});

it('gives up an owner that says nothing any more', async () => {
  const sockets = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  open.push({ close: async () => sockets.close() });
  await once(sockets, 'listening');
  const welcome = { type: 'welcome', home: 5, bindings: {}, peers_secret: '' } as const;
  sockets.on('connection', (socket) => socket.send(encode(welcome)));
  const { port } = sockets.address() as { port: number };
  const { link, objects } = await linked([`http://127.0.0.1:${port}`]);
  await expect(objects.queue('q').get('a', null)).rejects.toMatchObject({ retryable: true });
  expect(link.home).toBe(5);
});

it('gives up a gateway process that says nothing any more', async () => {
  const { server, links } = await owner({ connect: async () => new UpgradeResponse(() => {}) });
  const other = await linked([server.url]);
  const at = server.url.replace('http', 'ws');
  const mute = new WebSocket(`${at}/link?version=1&instance=mute&port=1`);
  open.push({ close: async () => mute.terminate() });
  await until(() => other.pushes.length === 2, 'it is linked');
  const headers = { [OPENED_HEADER]: Buffer.from('{}').toString('base64url') };
  const piped = new WebSocket(`${at}/link/control?queue=q&instance=mute`, { headers });
  await once(piped, 'open');
  await Promise.all([once(mute, 'close'), once(piped, 'close')]);
  await until(() => other.pushes.length === 3, 'the other process is told');
  expect(other.pushes.at(-1)).toMatchObject({ peers: [{ instance: expect.not.stringMatching('mute') }] });
  expect(links.figures('q')).toEqual({ streams: 0, received_bytes: 0 });
});

it('takes the newer link of a process that has dialled again', async () => {
  const { server } = await owner({ get: async (id: string) => id });
  const before = await linked([server.url], { instance: 'same' });
  const after = await linked([server.url], { instance: 'same' });
  expect(after.link.home).toBe(before.link.home);
  expect(await after.objects.queue('q').get('a', null)).toBe('a');
  before.link.close();
  expect(await after.objects.queue('q').get('b', null)).toBe('b');
});

it('ends at once where the owner refuses it, with the reason', async () => {
  const { server } = await owner({});
  const other = new URL(server.url);
  const gone = linkTo([`${other.origin}/elsewhere`]);
  open.push(gone);
  await expect(gone.link.start()).rejects.toThrow('takes no gateway processes');
});

it('refuses a gateway process of another version, and names both', async () => {
  const { server } = await owner({});
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/link?version=999&instance=i&port=1`);
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
  expect(response.statusCode).toBe(409);
  const { message } = await explanationOf(response);
  expect(message).toContain('version 1 of the link, and the gateway process version 999');
  socket.on('error', () => {}).terminate();
});

it('breaks a stream and closes sockets at the gateway processes', async () => {
  const { server, links } = await owner({});
  const { pushes } = await linked([server.url]);
  const reason = { message: 'lost', code: 'worker_lost', retryable: true } as const;
  links.breakStream('q', 'w', 7, reason as never);
  links.closeSockets('q', 'w');
  links.tellTokens('[]');
  await until(() => pushes.length === 4, 'all is told');
  expect(pushes.slice(1)).toEqual([
    { type: 'break_stream', queue_id: 'q', worker_id: 'w', stream: 7, reason },
    { type: 'close_sockets', queue_id: 'q', worker_id: 'w' },
    { type: 'tokens', text: '[]' },
  ]);
});

it('adds the figures of relays in gateway processes', async () => {
  const { server, links } = await owner({});
  const figures = { q: { streams: 2, received_bytes: 50 } };
  await linked([server.url], { figures: () => figures });
  await linked([server.url], { figures: () => figures });
  await until(() => links.figures('q').streams === 4, 'both have told theirs');
  expect(links.figures('q')).toEqual({ streams: 4, received_bytes: 100 });
  expect(links.figures('other')).toEqual({ streams: 0, received_bytes: 0 });
});

it('fetches a file of any length, and stops when its reader leaves', async () => {
  let isCancelled = false;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
    cancel: () => {
      isCancelled = true;
    },
  });
  const { server } = await owner({
    content: async (id: string) =>
      id === 'endless'
        ? new Response(endless)
        : new Response(id === 'none' ? null : id, { status: id === 'none' ? 404 : 200 }),
  });
  const { objects } = await linked([server.url]);
  const files = objects.files('q');
  const whole = await files.content('a file');
  expect(whole.headers.has(OBJECT_HEADER)).toBe(false);
  expect(await whole.text()).toBe('a file');
  expect((await files.content('none')).status).toBe(404);
  const body = (await files.content('endless')).body!.getReader();
  await body.read();
  await body.cancel();
  await until(() => isCancelled, 'the object is told');
});

it('tells failures of the owner from answers of its objects', async () => {
  const { server } = await owner({
    content: async (id: string) => {
      if (id === 'damaged') throw new Error('SQLITE_CORRUPT: the disk image is malformed');
      throw Object.assign(new Error('the object ended'), { retryable: true });
    },
  });
  const { objects } = await linked([server.url]);
  await expect(objects.files('q').content('a')).rejects.toMatchObject({ retryable: true });
  const damaged = await objects.files('q').content('damaged').catch(Object);
  expect(damaged).toMatchObject({ status: 503, code: 'state_damaged', headers: { 'retry-after': '300' } });
  expect(damaged).not.toHaveProperty('retryable');
});
