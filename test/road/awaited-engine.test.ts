import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { cli, startQueue, tearDown, untilReady, workers } from '../support/road.ts';

/** An engine that somebody else starts: what keeps it is said where its worker's user looks. */
let url: string;
beforeAll(async () => {
  url = (await startQueue()).url;
});
afterAll(tearDown);

function supervise(id: string, engineUrl: string, more: NodeJS.ProcessEnv = {}) {
  return cli(['supervise'], {
    ENGINE_URL: engineUrl,
    CASOLA_WS_URL: url.replace(/^http/, 'ws'),
    CASOLA_API_URL: url,
    CASOLA_CONFIG_ID: 'cfg',
    CASOLA_INSTANCE_ID: id,
    ...more,
  });
}

async function attention(id: string): Promise<{ text: string; advice: string } | undefined> {
  const fleet = (await (await fetch(`${url}/api/fleet`)).json()) as {
    attention: { worker_id: string; text: string; advice: string }[];
  };
  return fleet.attention.find(({ worker_id }) => worker_id === id);
}

it('one that refuses connections is named at once, waited for, and used when it comes', async () => {
  const port = await freePort();
  const engineUrl = `http://127.0.0.1:${port}`;
  const process = supervise('early', engineUrl);
  await process.waitForLine(/waiting for the engine at http:\/\/127.0.0.1:\d+: connection refused/);
  const item = await until(() => attention('early'), 'the page tells of it');
  expect(item.text).toContain('connection refused');
  expect(item.advice).toBe('Start it, or correct ENGINE_URL.');
  const [worker] = await workers(url);
  expect(worker?.error_message).toContain(`waiting for the engine at ${engineUrl}: connection refused`);
  const engine = createServer((_request, response) => response.end('{"data":[{"id":"tiny"}]}'));
  engine.listen(port, '127.0.0.1');
  await once(engine, 'listening');
  await untilReady(url, 'early');
  await until(async () => (await attention('early')) === undefined, 'the page has nothing to tell');
  await process.stop();
  engine.close();
});

it('an engine that is healthy and fails its first request gets no jobs, and ends its worker with the reason', async () => {
  const engine = createServer(({ method }, response) => {
    if (method === 'POST') response.writeHead(500).end('{"error":{"message":"CUDA error: no kernel image"}}');
    else response.end('{"data":[{"id":"tiny"}]}');
  });
  engine.listen(0, '127.0.0.1');
  await once(engine, 'listening');
  const { port } = engine.address() as { port: number };
  const process = supervise('broken', `http://127.0.0.1:${port}`);
  expect((await process.exited).code).toBe(EXIT.engineFailedToStart);
  const why =
    'the engine is healthy, but failed its first request: POST /v1/completions is 500: CUDA error: no kernel image';
  expect(process.output()).toContain(why);
  expect(process.output()).not.toContain('taking jobs');
  await until(
    async () => (await attention('broken'))?.text.includes('failed its first request'),
    'the page tells why',
  );
  engine.close();
});

it('a server that is no engine is named so, and in the end too', async () => {
  const page = createServer((_request, response) => response.writeHead(404).end('nothing here'));
  page.listen(0, '127.0.0.1');
  await once(page, 'listening');
  const { port } = page.address() as { port: number };
  const process = supervise('wrong', `http://127.0.0.1:${port}`, { VLLM_STARTUP_TIMEOUT: '6' });
  await process.waitForLine(
    /it answers, but is no engine: GET \/health and GET \/v1\/models are 404\. Correct ENGINE_URL/,
  );
  expect((await process.exited).code).toBe(EXIT.engineFailedToStart);
  // It ends with what it has said last: where this process stands still, that the page does not answer.
  const [, last] = [...process.output().matchAll(/waiting for the engine at \S+: (.+?)"/g)].at(-1)!;
  expect(process.output()).toContain(`was not healthy within 6 s: ${last}`);
  page.close();
});
