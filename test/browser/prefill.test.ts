import { afterAll, beforeAll, expect, it } from 'vitest';
import { longChat, said } from '../support/long-prompts.ts';
import { freePort } from '../support/ports.ts';
import { cli, type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

const CONNECTOR = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}';
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  const port = await freePort();
  const prefiller = cli(['simulate', 'tiny', '--port', String(port), '--kv-transfer-config', CONNECTOR]);
  await prefiller.waitForLine(/startup complete/);
  await readyWorker(queue.url, 'decoder', {
    env: { ENGINE_PREFILL_URL: `http://127.0.0.1:${port}`, CASOLA_HEARTBEAT_INTERVAL: '1' },
  });
});
afterAll(tearDown);

it('tells of a worker how many long prompts another engine computed for it', async () => {
  const { page, faults, close } = await openPage();
  await page.goto(`${queue.url}/workers/decoder`);
  await page.getByText('0 handed over, 0 tokens').waitFor();
  expect((await said(queue.url, longChat(1))).status).toBe(200);
  await page.getByText(/^1 handed over, 1[,.]\d{3} tokens$/).waitFor();
  expect(faults).toEqual([]);
  await close();
});
