import { afterAll, beforeAll, expect, it } from 'vitest';
import { ensureVllm, TINY_MODEL_ARGS } from '../../scripts/vllm/setup.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { cli, startQueue, tearDown, untilReady } from '../support/road.ts';
import { START_LIMIT } from './worker.ts';

/** What vLLM refuses of a worker's first stream, it is asked for once: its version says that it takes what is added. */
let server: Child;
let url: string;

beforeAll(async () => {
  const vllm = await ensureVllm();
  const port = await freePort();
  const address = ['--served-model-name', 'tiny', '--host', '127.0.0.1', '--port', String(port)];
  server = startProcess(vllm.vllmCommand, ['serve', vllm.modelDir, ...TINY_MODEL_ARGS, ...address], {
    env: { ...process.env, ...vllm.env },
    name: 'vllm serve',
  });
  const engineUrl = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${engineUrl}/health`)).ok, 'vLLM is healthy', START_LIMIT);
  url = (await startQueue()).url;
  cli(['work'], {
    ENGINE_URL: engineUrl,
    CASOLA_WS_URL: url.replace(/^http/, 'ws'),
    CASOLA_CONFIG_ID: 'cfg',
    CASOLA_INSTANCE_ID: 'w',
  });
  await untilReady(url, 'w');
});
afterAll(async () => {
  await tearDown();
  await server?.stop();
});

it('a prompt that is too long is refused with its status', async () => {
  const messages = [{ role: 'user', content: 'word '.repeat(20_000) }];
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'x-queue-wait': '5' },
    body: JSON.stringify({ model: 'tiny', stream: true, messages }),
  });
  expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('context length')]);
  const refusals = () => server.output().match(/"POST \/v1\/chat\/completions HTTP\/1.1" 400/g) ?? [];
  await until(() => refusals().length > 0, 'vLLM has logged it');
  expect(refusals()).toHaveLength(1);
});
