import { expect, test } from 'vitest';
import { addressOf, fileAccessOf } from '../../../src/worker/files/file-access.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const OURS = { wsUrl: 'wss://queue.example/q', apiUrl: 'https://api.example:8443', token: 'secret' };

function verdictOn(url: string, payloadHosts: string[] | null = null, own: object = OURS): string {
  const access = fileAccessOf({ ...OURS, ...own, payloadHosts });
  const address = addressOf(url, access);
  if (!address.ok) return address.problem;
  const kind = { undefined: 'bare', 'Bearer secret': 'with token' }[String(address.authorization)];
  return `${kind ?? address.authorization} ${address.url.href}`;
}

test.each([
  ['https://queue.example/payloads/1', 'with token https://queue.example/payloads/1'],
  ['https://api.example:8443/x', 'with token https://api.example:8443/x'],
  ['/api/payloads/1', 'with token https://queue.example/api/payloads/1'],
  ['payloads/1', 'with token https://queue.example/q/payloads/1'],
  ['https://bucket.example/k?sig=1', 'bare https://bucket.example/k?sig=1'],
  ['https://api.example/x', 'bare https://api.example/x'],
  ['//bucket.example/k', 'bare https://bucket.example/k'],
  ['https://me:p%40ss@bucket.example/k', `Basic ${btoa('me:p@ss')} https://bucket.example/k`],
  ['https://%zz@bucket.example/k', `Basic ${btoa('%zz:')} https://bucket.example/k`],
  ['https://me:pass@queue.example/k', 'with token https://queue.example/k'],
])('%s is allowed: %s', (url, verdict) => {
  expect(verdictOn(url)).toBe(verdict);
});

test.each([
  // The token must not travel in the clear because somebody wrote http.
  ['http://queue.example/x', /queue\.example is not allowed over http/],
  ['http://bucket.example/k?sig=SECRET', /bucket\.example is not allowed over http/],
  ['file:///etc/passwd', /file: addresses are not fetched/],
  ['https://', /not a URL/],
  ['https://me:SECRET@bucket.example:port/k', /not a URL/],
  ['http://me:SECRET@bucket.example/k', /http/],
])('%s is not allowed, and the reason keeps the signature out', (url, reason) => {
  expect(verdictOn(url)).toMatch(reason);
  expect(verdictOn(url)).not.toContain('SECRET');
});

test('a queue without TLS is its own host over http', () => {
  const own = { wsUrl: 'ws://127.0.0.1:8788', apiUrl: undefined };
  expect(verdictOn('/p/1', null, own)).toBe('with token http://127.0.0.1:8788/p/1');
  expect(verdictOn('http://127.0.0.1:9999/p', null, own)).toMatch(/not allowed/);
});

test.each([
  ['https://files.example.com/k', true],
  ['http://minio:9000/k', true],
  ['http://minio:9001/k', false],
  ['https://a.b.r2.example/k', true],
  ['https://r2.example/k', false],
  ['https://evil-r2.example/k', false],
  ['https://files.example.com.evil.example/k', false],
  ['https://queue.example/k', true],
])('with a list of hosts %s is allowed: %s', (url, isAllowed) => {
  const verdict = verdictOn(url, ['Files.example.com', 'minio:9000', '*.r2.example']);
  if (isAllowed) expect(verdict).toMatch(/^(bare|with token) /);
  else expect(verdict).toMatch(/not among the hosts that WORKER_PAYLOAD_HOSTS allows/);
});

/** A worker whose web is this map of addresses; every request is written down. */
async function browsing(pages: Record<string, () => Response>) {
  const bench = await new WorkerBench({ wsUrl: 'ws://queue', capacity: 2 }).ready();
  const seen: string[] = [];
  bench.fetch = async (url, init) => {
    const authorization = new Headers(init?.headers).get('authorization');
    seen.push(`${init?.method ?? 'GET'} ${url}${authorization ? ` ${authorization}` : ''}`);
    expect(init?.redirect).toBe('manual');
    return pages[url]!();
  };
  return { bench, seen };
}

const moved = (location: string, status = 302) => new Response(null, { status, headers: { location } });
const CHAT = { messages: [{ role: 'user', content: 'fetched' }] };

test('the queue gets the token with a relative address, and whoever it redirects to does not', async () => {
  const { bench, seen } = await browsing({
    'http://queue/payloads/1': () => moved('https://bucket.example/k?sig=1'),
    'https://bucket.example/k?sig=1': () => Response.json(CHAT),
  });
  await bench.push({ payload: null, payload_url: '/payloads/1' });
  await settled();
  expect(seen).toEqual(['GET http://queue/payloads/1 Bearer secret', 'GET https://bucket.example/k?sig=1']);
  expect(bench.engine.last.body.messages).toEqual(CHAT.messages);
});

test('a redirect to where the worker may not go fails the job with that reason', async () => {
  const { bench, seen } = await browsing({
    'https://bucket.example/k': () => moved('http://169.254.169.254/latest'),
  });
  await bench.push({ payload: null, payload_url: 'https://bucket.example/k' });
  await settled();
  expect(seen).toHaveLength(1);
  expect(bench.errors).toMatchObject([
    {
      code: 'payload_unreachable',
      error: expect.stringContaining('169.254.169.254 is not allowed over http'),
    },
  ]);
  expect(bench.engine.exchanges).toEqual([]);
});

test('a redirect in a circle ends', async () => {
  const { bench, seen } = await browsing({ 'https://a.example/': () => moved('https://a.example/') });
  await bench.push({ payload: null, payload_url: 'https://a.example/' });
  await settled();
  expect(seen).toHaveLength(6);
  expect(bench.errors).toMatchObject([{ error: expect.stringContaining('redirects') }]);
});

test('a large result is put to the queue with the token, and inline when its address is not allowed', async () => {
  const { bench, seen } = await browsing({ 'http://queue/results/1': () => new Response(null) });
  await bench.push({ result_upload_url: 'results/1' });
  bench.engine.last.complete('x'.repeat(300_000));
  await settled();
  expect(seen).toEqual(['PUT http://queue/results/1 Bearer secret']);
  expect(bench.queue.framesOf('job_result_ref')).toHaveLength(1);
  await bench.push({ job_id: 'j2', fence_token: 2, result_upload_url: 'http://elsewhere/results/1' });
  bench.engine.last.complete('x'.repeat(300_000));
  await settled();
  expect(seen).toHaveLength(1);
  expect(bench.results).toMatchObject([{ job_id: 'j2' }]);
});
