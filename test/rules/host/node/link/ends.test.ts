import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import { connect, createServer as createTcpServer, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, it, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { UpgradeResponse } from '../../../../../src/host/node/http/upgrade.ts';
import { AWAY_MS } from '../../../../../src/host/node/link/messages.ts';
import { NodeSocket } from '../../../../../src/host/node/objects/socket.ts';
import { UserError } from '../../../../../src/process/index.ts';
import { until } from '../../../../support/poll.ts';
import { closeOpened, type Linked, linked, linkTo, open, owner } from './owner.ts';

/** Links over slow ways, links that are refused, and links that end for good. */
afterEach(async () => {
  vi.useRealTimers();
  await closeOpened();
});

/** Starts a way to a port on which the bytes towards it take their time. @returns its address */
async function slowWayTo(port: number, bytesPerSecond: number): Promise<string> {
  const server = createTcpServer((near) => {
    const far: Socket = connect(port, '127.0.0.1');
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
    far.pipe(near);
    near.on('data', async (piece) => {
      far.write(piece);
      if (piece.length <= 1000) return;
      near.pause();
      await sleep((piece.length / bytesPerSecond) * 1000);
      near.resume();
    });
  }).listen(0, '127.0.0.1');
  open.push({ close: async () => void server.close() });
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}

it('keeps the link while a long message still arrives', async () => {
  const { server } = await owner({ put: async (bytes: Uint8Array) => bytes.byteLength });
  const { link, objects, lines } = await linked([await slowWayTo(server.port, 1_000_000)]);
  const queue = objects.queue('q') as unknown as { put(bytes: Uint8Array): Promise<number> };
  const bytes = new Uint8Array(9_000_000);
  expect(await queue.put(bytes)).toBe(bytes.byteLength);
  expect(link.away).toBeNull();
  expect(lines.join('\n')).not.toContain('ended');
});

it('says each problem of each address once', async () => {
  let dials = 0;
  const follower = createServer().on('upgrade', (_request, socket) => {
    dials += 1;
    socket.end('HTTP/1.1 503 Unavailable\r\nconnection: close\r\n\r\nit follows another one');
  });
  follower.listen(0, '127.0.0.1');
  open.push({ close: async () => void follower.close() });
  await once(follower, 'listening');
  const { port } = follower.address() as { port: number };
  const made = linkTo(['http://127.0.0.1:1', `http://127.0.0.1:${port}`]);
  open.push(made);
  void made.link.start();
  await until(() => dials >= 4, 'both are dialled several times');
  expect(made.lines).toHaveLength(2);
});

/** A socket over which nothing goes. */
class Idle extends EventEmitter {
  readonly OPEN = 1;
  readonly readyState = 1;
  readonly _socket = new PassThrough();
  send(): void {}
  close(): void {}
  terminate(): void {}
}

it('cuts off the sockets behind a gateway process of which nothing is heard', async () => {
  const { links } = await owner({});
  vi.useFakeTimers();
  const dialling = { instance: 'i', home: null, address: 'gateway:80', port: 80 };
  const opening = links.open(dialling, () => () => {}) as UpgradeResponse;
  opening.take(new Idle() as unknown as WebSocket);
  const ends: unknown[] = [];
  const heard = { leave: () => {}, now: () => 0, pings: undefined, message: () => {}, log: () => {} };
  const hosted = new UpgradeResponse((webSocket) => {
    new NodeSocket(webSocket, { ...heard, closed: (code) => ends.push(code) });
  });
  const piped = Object.assign(new Idle(), { terminate: () => void piped.emit('close', 1006) });
  (links.pipe('i', hosted) as UpgradeResponse).take(piped as unknown as WebSocket);
  vi.advanceTimersByTime(10_000);
  expect(ends).toEqual(['cut off']);
});

it('refuses a gateway process beyond the last number, with the reason', async () => {
  const { server, links } = await owner({});
  for (let number = 1; number <= 255; number++) {
    const dialling = { instance: `i${number}`, home: null, address: `gateway-${number}:80`, port: 80 };
    const opening = links.open(dialling, () => () => {}) as UpgradeResponse;
    opening.take(new Idle() as unknown as WebSocket);
  }
  const made = linkTo([server.url]);
  open.push(made);
  void made.link.start();
  await until(() => made.lines.length > 0, 'it is told');
  expect(made.lines[0]).toContain('there are 255 gateway processes, and no number for another');
});

it('ends at once where this process may not serve the queue', async () => {
  const { server } = await owner({});
  const made = linkTo([server.url], {
    welcomed: () => {
      throw new UserError('not like that');
    },
  });
  open.push(made);
  await expect(made.link.start()).rejects.toThrow('not like that');
  expect(made.link.away).not.toBeNull();
});

it('cancels the requests of a gateway process that is gone, and none that was asked again', async () => {
  const cancelled: unknown[] = [];
  const asked: string[] = [];
  const never = new Promise(() => {});
  const { server, links } = await owner({
    request: ({ job_id }: { job_id: string }) => {
      asked.push(job_id);
      return job_id === 'answered' ? Promise.resolve({ kind: 'stream' }) : never;
    },
    cancel: async (...all: unknown[]) => void cancelled.push(all),
  });
  const gone = await linked([server.url], { instance: 'gone' });
  const back = await linked([server.url], { instance: 'back' });
  const request = ({ objects }: Linked, job_id: string) =>
    void objects
      .queue('q')
      .request({ job_id } as never)
      .catch(() => {});
  for (const job_id of ['waits', 'answered']) request(gone, job_id);
  request(back, 'moves');
  await until(() => asked.length === 3, 'all are asked');
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  gone.link.close();
  back.link.close();
  await until(() => links.figures('q').streams === 0 && back.link.away && gone.link.away, 'both are away');
  const again = await linked([server.url], { instance: 'back' });
  request(again, 'moves');
  await until(() => asked.length === 4, 'it is asked again');
  expect(cancelled).toEqual([]);
  vi.advanceTimersByTime(AWAY_MS);
  await until(() => cancelled.length > 0, 'the request is cancelled');
  expect(cancelled).toEqual([['waits', 'caller_gone', null]]);
});
