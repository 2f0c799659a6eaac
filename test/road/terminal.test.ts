import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { isPlain } from '../../src/protocol/index.ts';
import { cli, tearDown } from '../support/road.ts';

/** Commands against a queue whose every name and message tries to steer the terminal. */

const ODD = '\u001b[2J\u009b31m\u202eevil';
const batch = { id: ODD, object: 'batch', status: ODD, endpoint: ODD, created_at: 1, request_counts: null };
const ANSWERS: Record<string, unknown> = {
  '/v1/batches': { object: 'list', data: [batch], has_more: false },
  '/v1/batches/b': batch,
  '/v1/batches/b/cancel': batch,
  '/api/fleet/pools/p/pause': { text: ODD },
  '/api/fleet/pools/p/roll': { text: ODD },
  '/api/fleet/spec': { applied: true, changes: [ODD], price_per_hour: { min: 0, max: 0 } },
  '/api/tokens': { tokens: [{ name: ODD, scopes: [ODD], tenant: ODD, source: 'api' }] },
};
const queue = createServer(({ url = '' }, response) => {
  const answer = ANSWERS[new URL(url, 'http://queue').pathname];
  response.writeHead(answer ? 200 : 404, { 'content-type': 'application/json' });
  response.end(JSON.stringify(answer ?? { error: { message: ODD } }));
});
let address: string;

beforeAll(async () => {
  await new Promise<void>((done) => queue.listen(0, '127.0.0.1', done));
  address = `http://127.0.0.1:${(queue.address() as AddressInfo).port}`;
});
afterAll(async () => {
  queue.close();
  await tearDown();
});

it.each([
  ['batch', 'list'],
  ['batch', 'status', 'b'],
  ['batch', 'cancel', 'b'],
  ['fleet', 'pause', 'p'],
  ['fleet', 'roll', 'p'],
  ['fleet', 'remove'],
  ['fleet', 'status'],
  ['token', 'list'],
  ['submit', 'hello'],
])('%s %s shows what it is told, and is not steered by it', async (...command) => {
  const process = cli([...command, '--url', address]);
  await process.exited;
  expect(process.output()).toContain('evil');
  expect(isPlain(process.output().replaceAll('\n', ''))).toBe(true);
});
