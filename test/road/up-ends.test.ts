import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { EXIT } from '../../src/process/exit-codes.ts';
import { FakeProvider } from '../support/fakes/fake-provider.ts';
import { FakeRunpod } from '../support/fakes/fake-runpod.ts';
import { until } from '../support/poll.ts';
import { cli, processesWith, stateFolder, tearDown } from '../support/road.ts';

/** `up --fleet` with machines at a provider, and a queue process that is killed. */
const clock = { now: () => Date.now() };
const provider = new FakeProvider(clock);
const runpod = new FakeRunpod(provider, clock, 'key');
let server: Server;

async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { method = 'GET', headers, url } = request;
  const answer = await runpod.fetch(`https://api.runpod.io${url}`, {
    method,
    headers: { authorization: String(headers.authorization), 'content-type': 'application/json' },
    ...(chunks.length > 0 ? { body: Buffer.concat(chunks).toString() } : {}),
  });
  response.writeHead(answer.status, { 'content-type': 'application/json' });
  response.end(await answer.text());
}

beforeEach(async () => {
  server = createServer((request, response) => void pass(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterEach(async () => {
  await tearDown();
  server.closeAllConnections();
  server.close();
});

it('leaves no machine at a provider when its queue is killed', async () => {
  const { port } = server.address() as AddressInfo;
  const stateDir = stateFolder();
  const file = join(stateDir, 'fleet.yaml');
  const chat = {
    model: 'tiny',
    min: 1,
    machines: [{ provider: 'cloud', instance_type: 'H100', price_per_hour: 2 }],
  };
  const cloud = { driver: 'runpod', url: `http://127.0.0.1:${port}/v2` };
  writeFileSync(file, stringify({ providers: { cloud }, pools: { chat } }));
  const up = cli(['up', '--fleet', file, '--port', '0', '--state', stateDir], { RUNPOD_API_KEY: 'key' });
  await until(() => provider.alive.length === 1, 'a pod is there');
  const queue = (await processesWith(stateDir)).filter((pid) => pid !== up.pid);
  for (const pid of queue) process.kill(pid, 'SIGKILL');
  const { code } = await up.exited;
  expect(code).toBe(EXIT.unexpected);
  expect(provider.alive).toHaveLength(0);
});
