import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ANSWERED_FIRST } from '../support/raw-worker.ts';
import { type QueueProcess, readyWorker, startQueue, stateFolder, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  const folder = stateFolder();
  const adapters = ['sql', 'broken'].map((name) => ({ name, source: join(folder, name) }));
  const sql = join(folder, 'sql');
  mkdirSync(sql);
  writeFileSync(join(sql, 'adapter_config.json'), JSON.stringify({ peft_type: 'LORA', name: 'sql' }));
  writeFileSync(join(sql, 'adapter_model.safetensors'), '');
  await readyWorker(queue.url, 'one', {
    engineArgs: '--max-loras 1',
    env: { ENGINE_ADAPTERS: JSON.stringify(adapters) },
  });
});
afterAll(tearDown);

async function ask(model: string): Promise<number> {
  const answer = await fetch(`${queue.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...ANSWERED_FIRST },
    body: JSON.stringify({ model, prompt: 'a', max_tokens: 2 }),
  });
  await answer.text();
  return answer.status;
}

it('tells of a worker which adapters it has loaded, and which it could not load and why', async () => {
  const { page, faults, close } = await openPage();
  await page.goto(`${queue.url}/workers/one`);
  const facts = page.getByRole('region', { name: 'Facts' });
  await facts.getByText('none of sql, broken').waitFor();
  expect(await ask('sql')).toBe(200);
  await facts.getByText('sql', { exact: true }).waitFor();
  // Where it is loaded is found among all workers.
  await page.goto(`${queue.url}/?text=sql`);
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'one' }) });
  await row.getByText('sql', { exact: true }).waitFor();
  await page.goto(`${queue.url}/workers/one`);
  expect(await ask('broken')).toBe(503);
  await facts.getByText(/broken: .*adapter_config\.json/).waitFor();
  expect(faults).toEqual([]);
  await close();
});
