import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { acceptUpgrade, lacksUpgrade, UpgradeResponse } from '../../../../src/host/node/http/upgrade.ts';
import { until } from '../../../support/poll.ts';
import { raw, serving } from './raw.ts';

/** Connections that become WebSockets, and those that do not. */

const upgrade = (more: string[] = []) => [
  'GET /ws HTTP/1.1',
  'Host: 127.0.0.1',
  'Connection: Upgrade',
  'Upgrade: websocket',
  ...more,
];
const handshake = (more: string[] = []) =>
  upgrade([`Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`, 'Sec-WebSocket-Version: 13', ...more]);

/** Answers each message with itself. */
const echo = () =>
  serving(
    () =>
      new UpgradeResponse((socket) => {
        socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
      }),
  );

describe('a WebSocket', () => {
  it('carries messages both ways, none of them compressed', async () => {
    const { port } = await echo();
    const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`);
    const heard: string[] = [];
    socket.on('message', (data) => heard.push(String(data)));
    socket.on('open', () => socket.send('one'));
    await until(() => heard.length === 1, 'it is answered');
    socket.send('x'.repeat(20 * 1024 * 1024));
    await until(() => heard.length === 2, 'a long one is answered');
    expect([heard[0], heard[1]!.length, socket.extensions]).toEqual(['one', 20 * 1024 * 1024, '']);
    socket.close();
  });

  it('misses no message that came with the handshake', async () => {
    const { port } = await echo();
    const frame = Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]);
    const head = Buffer.from(`${handshake().join('\r\n')}\r\n\r\n`);
    const caller = await raw(port, [], Buffer.concat([head, frame]));
    await caller.hears('\x81\x02hi');
  });

  it('is broken off where its peer does not read', async () => {
    let server: ReturnType<typeof acceptUpgrade>['socket'] | null = null;
    let isClosed = false;
    const { port } = await serving(() => {
      const { socket, response } = acceptUpgrade();
      server = socket;
      socket.listen({ message: () => {}, closed: () => (isClosed = true) });
      return response;
    });
    const client = new WebSocket(`ws://127.0.0.1:${port}/ws`);
    await until(() => client.readyState === client.OPEN, 'it is open');
    client.pause();
    const text = 'x'.repeat(1024 * 1024);
    for (let sent = 0; sent < 100; sent++) server!.send(text);
    await until(() => isClosed, 'it is broken off');
    client.terminate();
  });

  it('is not opened where the answer is another: it is told as HTTP', async () => {
    const { port } = await serving(() => Response.json({ error: 'no' }, { status: 401 }));
    const caller = await raw(port, handshake());
    const answer = await caller.whole();
    expect(answer).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/);
    expect(answer).toMatch(/connection: close[\s\S]*\{"error":"no"\}$/i);
  });

  it('of a caller that left is not opened', async () => {
    let goOn: (() => void) | null = null;
    let isGone = false;
    let isTaken = false;
    let hasLeft = false;
    const { port } = await serving(async ({ signal }) => {
      signal.addEventListener('abort', () => {
        hasLeft = true;
      });
      await new Promise<void>((done) => {
        goOn = done;
      });
      const taken = () => {
        isTaken = true;
      };
      return new UpgradeResponse(taken, () => {
        isGone = true;
      });
    });
    const caller = await raw(port, handshake());
    const answer = await until(() => goOn, 'it is asked');
    caller.socket.resetAndDestroy();
    await until(() => hasLeft, 'the signal fires');
    answer();
    await until(() => isGone, 'the caller is missed');
    expect(isTaken).toBe(false);
  });

  it.each([
    ['without a key', upgrade(['Sec-WebSocket-Version: 13']), 400],
    ['with a key that is none', upgrade(['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: x']), 400],
    ['of another version', upgrade(['Sec-WebSocket-Version: 8']), 426],
  ])('is refused to a handshake %s, before anything is asked', async (_what, head, status) => {
    const { port } = await serving(() => {
      throw new Error('asked');
    });
    const answer = await (await raw(port, head)).whole();
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer).toContain('"message"');
  });

  it('is not opened where the request does not ask to go over to it', async () => {
    let isGone = false;
    const { port } = await serving(
      () =>
        new UpgradeResponse(
          () => {},
          () => {
            isGone = true;
          },
        ),
    );
    const caller = await raw(port, ['GET /ws HTTP/1.1', 'Host: 127.0.0.1', 'Upgrade: websocket']);
    await caller.hears('HTTP/1.1 426 ');
    expect(isGone).toBe(true);
    expect(lacksUpgrade().headers.get('upgrade')).toBe('websocket');
  });
});

describe('a socket of the gateway', () => {
  it('hears and answers, tells its end, and says what was said before it was open', async () => {
    const heard: unknown[] = [];
    const { port } = await serving(() => {
      const { socket, response } = acceptUpgrade();
      const closed = () => heard.push('closed');
      const message = (data: string | ArrayBuffer) => {
        heard.push(typeof data === 'string' ? data : data.byteLength);
        if (data === 'end') socket.close(1008, 'ä'.repeat(100));
      };
      socket.listen({ message, closed });
      socket.send('welcome');
      return response;
    });
    const caller = new WebSocket(`ws://127.0.0.1:${port}/`);
    const told: unknown[] = [];
    caller.on('message', (data) => told.push(String(data)));
    caller.on('close', (code, reason) => told.push(code, String(reason)));
    await until(() => told.length === 1, 'it is welcomed');
    caller.send('text');
    caller.send(new Uint8Array(3));
    caller.send('end');
    await until(() => heard.length === 4, 'its end is told');
    expect(heard).toEqual(['text', 3, 'end', 'closed']);
    await until(() => told.length === 3, 'the caller knows why');
    expect(told).toEqual(['welcome', 1008, 'ä'.repeat(61)]);
  });

  it('tells the end of a caller that left before it was open', async () => {
    let answer: (() => void) | null = null;
    let hasLeft = false;
    let isClosed = false;
    const { port } = await serving(async ({ signal }) => {
      signal.addEventListener('abort', () => {
        hasLeft = true;
      });
      const { socket, response } = acceptUpgrade();
      const closed = () => {
        isClosed = true;
      };
      socket.listen({ message: () => {}, closed });
      await new Promise<void>((done) => {
        answer = done;
      });
      return response;
    });
    const caller = await raw(port, handshake());
    const goOn = await until(() => answer, 'it is asked');
    caller.socket.resetAndDestroy();
    await until(() => hasLeft, 'the signal fires');
    goOn();
    await until(() => isClosed, 'its end is told');
  });
});
