import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../support/ports.ts';
import { cli, type QueueProcess, startQueue, stateFolder, tearDown, untilReady } from '../support/road.ts';
import { openPage } from './page.ts';

const MODELS = ['llama', 'qwen'];
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  const folder = stateFolder();
  const files: string[] = [];
  for (const model of MODELS) {
    const file = join(folder, `${model}.env`);
    writeFileSync(
      file,
      `ENGINE=simulator\nVLLM_MODEL=${model}\nVLLM_PORT=${await freePort()}\nCASOLA_CONFIG_ID=pool-${model}\nCASOLA_INSTANCE_ID=${model}\n`,
    );
    files.push(file);
  }
  cli(['swap', ...files], {
    CASOLA_WS_URL: queue.url.replace(/^http/, 'ws'),
    CASOLA_API_URL: queue.url,
    ENGINE_AWAKE_SECONDS: '1',
  });
  for (const model of MODELS) await untilReady(queue.url, model);
});
afterAll(tearDown);

it('tells of each worker of a shared GPU whether its model is awake', async () => {
  const { page, faults, close } = await openPage();
  for (const [model, other] of [MODELS, MODELS.toReversed()] as [string, string][]) {
    const answer = await fetch(`${queue.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, prompt: 'a', max_tokens: 2 }),
    });
    expect(answer.status).toBe(200);
    await answer.text();
    await page.goto(`${queue.url}/workers/${model}`);
    await page.getByText('awake', { exact: true }).waitFor();
    await page.goto(`${queue.url}/workers/${other}`);
    await page.getByText('asleep: another model has it').waitFor();
    await page.goto(queue.url);
    const rowOf = (name: string) =>
      page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
    await rowOf(model).getByText('awake', { exact: true }).waitFor();
    await rowOf(other).getByText('asleep', { exact: true }).waitFor();
  }
  expect(faults).toEqual([]);
  await close();
});
