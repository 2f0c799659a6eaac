import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createPublicFetch } from '../../../src/worker/files/file-access.ts';
import { resolver } from '../../support/resolver.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

let connections = 0;
const server = createServer((socket) => {
  connections += 1;
  socket.destroy();
});
let port: number;
beforeAll(async () => {
  server.listen(0);
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
afterAll(() => server.close());

test.each([
  '127.0.0.1',
  'localhost',
  '[::1]',
  '127.1',
  '2130706433',
  '0x7f.1',
  '[::ffff:127.0.0.1]',
  'rebound.example',
])('nothing is connected to for %s', async (host) => {
  const fetchPublic = createPublicFetch(
    host === 'rebound.example' ? resolver({ [host]: ['127.0.0.1'] }) : undefined,
  );
  await expect(fetchPublic(`https://${host}:${port}/k?sig=SECRET`)).rejects.toMatchObject({
    cause: { name: 'PrivateAddressError', message: expect.stringContaining('WORKER_PAYLOAD_HOSTS') },
  });
  expect(connections).toBe(0);
});

test('a payload behind a name of a private address fails its job at once, with the reason and no secret', async () => {
  const bench = await new WorkerBench({ wsUrl: 'ws://queue' }).ready();
  bench.fetchPublic = createPublicFetch(resolver({ 'files.example': ['10.0.0.5'] }));
  await bench.push({ payload: null, payload_url: 'https://files.example/k?sig=SECRET' });
  for (let turn = 0; turn < 100 && bench.errors.length === 0; turn++) await settled();
  expect(bench.errors).toMatchObject([
    {
      code: 'payload_unreachable',
      retryable: false,
      error: expect.stringContaining('files.example leads to 10.0.0.5, a private address'),
    },
  ]);
  expect(JSON.stringify(bench.errors)).not.toContain('SECRET');
});

test('listed hosts and the queue may have private addresses, and a redirect is no way around', async () => {
  const listed = await new WorkerBench({ payloadHosts: ['minio'], capacity: 2 }).ready();
  const plain: string[] = [];
  listed.fetch = async (url) => {
    plain.push(url);
    return Response.json({ messages: [] });
  };
  listed.fetchPublic = () => Promise.reject(new Error('not this way'));
  await listed.push({ payload: null, payload_url: 'http://minio/k' });
  await listed.push({ job_id: 'b', fence_token: 2, payload: null, payload_url: '/k' });
  await settled();
  expect(plain).toEqual(['http://minio/k', 'http://queue/k']);

  const moved = await new WorkerBench().ready();
  moved.fetch = async () => new Response(null, { status: 302, headers: { location: 'https://10.0.0.1/k' } });
  moved.fetchPublic = createPublicFetch();
  await moved.push({ payload: null, payload_url: '/k' });
  for (let turn = 0; turn < 100 && moved.errors.length === 0; turn++) await settled();
  expect(moved.errors).toMatchObject([{ error: expect.stringContaining('10.0.0.1 is a private address') }]);
});

test('through a proxy, only what is private as far as this machine knows is refused', async () => {
  const asked: string[] = [];
  const fetch = async (url: string) => {
    asked.push(url);
    return new Response('');
  };
  const known = resolver({ 'inside.example': ['10.0.0.5'], 'files.example': ['93.184.216.34'] });
  const lookup = ((host: string, options: never, done: (error: Error) => void) =>
    host.startsWith('known-to')
      ? done(new Error('ENOTFOUND'))
      : known(host, options, done as never)) as never;
  const fetchPublic = createPublicFetch(lookup, { applies: () => true, fetch });
  for (const host of ['inside.example', '10.0.0.5', '[::1]', '169.254.169.254']) {
    await expect(fetchPublic(`https://${host}/x`)).rejects.toThrow(
      expect.objectContaining({ cause: expect.objectContaining({ name: 'PrivateAddressError' }) }),
    );
  }
  await fetchPublic('https://files.example/x');
  await fetchPublic('https://known-to-the-proxy-alone.example/x');
  expect(asked).toEqual(['https://files.example/x', 'https://known-to-the-proxy-alone.example/x']);
});
