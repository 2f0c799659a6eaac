import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { request } from 'undici';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { readProxies } from '../../../src/process/proxies.ts';
import { proxyDispatcher, tunnelled } from '../../../src/process/through-proxies.ts';

/** An encrypted server that is named by its address, behind a proxy that opens every tunnel to it. */

const ADDRESSES = ['192.0.2.9', '[2001:db8::9]'];
const asked: string[] = [];
let server: Server;
let proxy: Server;
let choose: NonNullable<ReturnType<typeof readProxies>>;

const listening = async (one: Server) => {
  await new Promise<void>((done) => one.listen(0, '127.0.0.1', done));
  return (one.address() as AddressInfo).port;
};

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'through-proxies-'));
  const [keyout, out] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  const made = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
    ...['-subj', '/CN=queue', '-addext', 'subjectAltName=IP:192.0.2.9,IP:2001:db8::9'],
    ...['-keyout', keyout, '-out', out],
  ]);
  expect(made.status).toBe(0);
  const [key, cert] = [readFileSync(keyout), readFileSync(out, 'utf8')];
  rmSync(folder, { recursive: true });
  setDefaultCACertificates([...getCACertificates(), cert]);
  server = createTlsServer({ key, cert }, (_request, response) => response.end('here')) as never;
  new WebSocketServer({ server: server as never });
  const port = await listening(server);
  proxy = createServer().on('connect', ({ url = '' }, socket) => {
    asked.push(url);
    const to = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      to.pipe(socket).pipe(to);
    });
    for (const [one, other] of [
      [to, socket],
      [socket, to],
    ] as const)
      one.on('error', () => other.destroy());
  });
  choose = readProxies({ HTTPS_PROXY: `127.0.0.1:${await listening(proxy)}` })!;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  proxy.close();
});

it.each(ADDRESSES)(
  '%s is reached by a request and by a WebSocket, and its certificate is compared with it',
  async (host) => {
    asked.length = 0;
    const dispatcher = proxyDispatcher(choose);
    const { body } = await request(`https://${host}:8443/`, { dispatcher });
    expect(await body.text()).toBe('here');
    await dispatcher.close();
    const url = `wss://${host}:8443/ws`;
    const createConnection = tunnelled(choose(url)!, new URL(url)) as never;
    const socket = new WebSocket(url, { createConnection });
    await new Promise((done, failed) => socket.once('open', done).once('error', failed));
    socket.terminate();
    expect(asked).toEqual([`${host}:8443`, `${host}:8443`]);
  },
);
