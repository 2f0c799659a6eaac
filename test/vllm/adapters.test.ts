import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureVllm } from '../../scripts/vllm/setup.ts';
import { type QueueProcess, startQueue, stateFolder, tearDown, type WorkerProcess } from '../support/road.ts';
import { make, startOverVllm } from './worker.ts';

/** LoRA adapters over real vLLM: those that it is started with, and those that it loads while it runs. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  const vllm = await ensureVllm();
  const folder = stateFolder();
  const adapter = (name: string, rank: number) => {
    make(vllm, 'make_tiny_adapter.py', join(folder, name), String(rank));
    return { name, source: join(folder, name) };
  };
  const adapters = [adapter('sql', 8), adapter('legal', 8), adapter('large', 64)];
  const fixed = adapter('fixed', 8);
  queue = await startQueue();
  worker = await startOverVllm(vllm, queue.url, {
    model: vllm.modelDir,
    name: 'tiny',
    env: {
      MAX_MODEL_LEN: '2048',
      LORA_MODULES: JSON.stringify({ name: fixed.name, path: fixed.source }),
      ENGINE_ADAPTERS: JSON.stringify(adapters),
      MAX_LORAS: '1',
    },
  });
});
afterAll(tearDown);

function ask(model: string): Promise<Response> {
  return fetch(`${queue.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      prompt: 'Tell me a story',
      max_tokens: 12,
      temperature: 0,
      ignore_eos: true,
    }),
  });
}

async function said(model: string): Promise<string> {
  const answer = await ask(model);
  expect(answer.status).toBe(200);
  const body = (await answer.json()) as { model: string; choices: { text: string }[] };
  expect(body.model).toBe(model);
  return body.choices[0]!.text;
}

async function modelsAt(url: string): Promise<{ id: string; parent: string | null }[]> {
  const list = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string; parent: string }[] };
  return list.data.map(({ id, parent }) => ({ id, parent }));
}

describe('adapters over real vLLM', () => {
  it('are listed with their parent, whether the engine has loaded them or not', async () => {
    expect(await modelsAt(queue.url)).toEqual([
      { id: 'tiny', parent: null },
      { id: 'fixed', parent: 'tiny' },
      { id: 'sql', parent: 'tiny' },
      { id: 'legal', parent: 'tiny' },
      { id: 'large', parent: 'tiny' },
    ]);
    expect((await modelsAt(worker.engineUrl)).map(({ id }) => id)).toEqual(['tiny', 'fixed']);
  });

  it('answer each in its own way, loaded when they are asked for and unloaded for want of room', async () => {
    const [base, fixed] = [await said('tiny'), await said('fixed')];
    const sql = await said('sql');
    expect((await modelsAt(worker.engineUrl)).map(({ id }) => id)).toEqual(['tiny', 'fixed', 'sql']);
    const legal = await said('legal');
    expect((await modelsAt(worker.engineUrl)).map(({ id }) => id)).toEqual(['tiny', 'fixed', 'legal']);
    expect(new Set([base, fixed, sql, legal]).size).toBe(4);
    expect(await said('sql')).toBe(sql);
  });

  it('that vLLM refuses are an error with its reason, and leave it as it is', async () => {
    const answer = await ask('large');
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({
      error: {
        code: 'adapter_failed',
        message: expect.stringMatching(/adapter "large" could not be loaded: .*rank/i),
      },
    });
    await said('tiny');
  });

  it('that nobody lists are a model that does not exist', async () => {
    expect((await ask('violet')).status).toBe(404);
  });
});
