import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AdapterState } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { ANSWERED_FIRST, REFUSED_FIRST } from '../support/raw-worker.ts';
import {
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  stateFolder,
  submit,
  tearDown,
  workers,
} from '../support/road.ts';

/** LoRA adapters over the road as users start it (docs/adapters.md): two workers with room for one adapter each. */
let queue: QueueProcess;

beforeAll(async () => {
  const folder = stateFolder();
  const adapters = ['sql', 'legal', 'broken'].map((name) => ({ name, source: join(folder, name) }));
  for (const { name, source } of adapters.slice(0, 2)) writeAdapter(name, source);
  // On the second machine what is missing on the first one is there.
  const elsewhere = join(folder, 'elsewhere');
  writeAdapter('half', elsewhere);
  const half = (source: string) => ({ name: 'half', source });
  queue = await startQueue({ env: { QUEUE_MODEL_ALIASES: 'sql-expert=sql' } });
  for (const [id, source] of [
    ['w1', join(folder, 'nowhere')],
    ['w2', elsewhere],
  ] as const) {
    await readyWorker(queue.url, id, {
      engineArgs: '--max-loras 1 --inter-token-latency-ms 20',
      env: { ENGINE_ADAPTERS: JSON.stringify([...adapters, half(source)]), CASOLA_MAX_JOBS: '4' },
    });
  }
});
afterAll(tearDown);

function writeAdapter(name: string, folder: string): void {
  mkdirSync(folder);
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ peft_type: 'LORA', name }));
  writeFileSync(join(folder, 'adapter_model.safetensors'), '');
}

function ask(
  model: string,
  maxTokens = 2,
  more: object = {},
  headers: object = ANSWERED_FIRST,
): Promise<Response> {
  return fetch(`${queue.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      model,
      messages: [{ role: 'user', content: 'Hello.' }],
      max_tokens: maxTokens,
      ignore_eos: true,
      ...more,
    }),
  });
}

async function text(answer: Response): Promise<string> {
  const body = (await answer.json()) as { choices: { message: { content: string } }[] };
  return body.choices[0]!.message.content;
}

/** Worker → what it says of its adapters. */
async function told(): Promise<Record<string, AdapterState>> {
  const all = await workers(queue.url);
  return Object.fromEntries(all.map(({ worker_id, adapters }) => [worker_id, adapters!]));
}

/** Who has this one loaded. */
async function holders(name: string): Promise<string[]> {
  const all = Object.entries(await told());
  return all.flatMap(([id, { loaded }]) => (loaded.includes(name) ? [id] : []));
}

describe('adapters over the road', () => {
  it('are models with a parent before anybody has asked for them, and without the path', async () => {
    const list = (await (await fetch(`${queue.url}/v1/models`)).json()) as {
      data: Record<string, unknown>[];
    };
    expect(list.data).toMatchObject([
      { id: 'tiny', parent: null },
      { id: 'sql', parent: 'tiny', pool: { id: 'cfg', state: 'ready' } },
      { id: 'legal', parent: 'tiny' },
      { id: 'broken', parent: 'tiny' },
      { id: 'half', parent: 'tiny' },
      { id: 'sql-expert', parent: 'tiny', alias_of: 'sql' },
    ]);
    expect(JSON.stringify(list.data.slice(1))).not.toContain('/');
    expect(await holders('sql')).toEqual([]);
  });

  it('are loaded at one worker by the first request, and the next ones go there', async () => {
    const [base, first] = await Promise.all([ask('tiny').then(text), ask('sql')]);
    expect(await text(first)).not.toBe(base);
    const at = await until(async () => (await holders('sql'))[0], 'one has it');
    for (let n = 0; n < 3; n++) expect((await ask('sql')).status).toBe(200);
    expect(await holders('sql')).toEqual([at]);
  });

  it('go to the other worker when room is needed, and an adapter that answers stays until it has', async () => {
    const [at] = await holders('sql');
    const long = ask('sql', 100, { stream: true }).then((answer) => answer.text());
    expect((await ask('legal')).status).toBe(200);
    expect(await holders('legal')).not.toContain(at);
    expect(await holders('sql')).toEqual([at]);
    expect(await long).toContain('data: [DONE]');
  });

  it('answer stored jobs and aliases', async () => {
    const payload = { model: 'sql-expert', messages: [{ role: 'user', content: 'a' }], max_tokens: 1 };
    const { id } = await submit(queue.url, { job_type: 'chat_completion', payload });
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'succeeded',
      result: { completion: { model: 'sql' } },
    });
  });

  it('that one worker cannot load are loaded by another', async () => {
    for (let n = 0; n < 4; n++) expect((await ask('half')).status).toBe(200);
    await until(async () => (await holders('half')).join() === 'w2', 'the other worker has it');
  });

  it('that nobody can load are an error with the reason, at the worker and in the answer', async () => {
    const answer = await ask('broken');
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({
      error: {
        code: 'adapter_failed',
        message: expect.stringMatching(
          /adapter "broken" could not be loaded: .*adapter_config\.json cannot be read/,
        ),
      },
    });
    await until(
      async () =>
        Object.values(await told()).some(({ failed }) => failed.some(({ name }) => name === 'broken')),
      'a worker tells of it',
    );
  });

  it('that nobody lists are a model that does not exist, whatever path they name', async () => {
    for (const model of ['violet', '/etc', '../sql']) {
      const answer = await ask(model, 2, {}, REFUSED_FIRST);
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ error: { code: 'model_not_found' } });
    }
  });

  it('are not loaded by callers', async () => {
    const body = JSON.stringify({ lora_name: 'own', lora_path: '/etc' });
    const answer = await fetch(`${queue.url}/v1/load_lora_adapter`, { method: 'POST', body });
    expect(answer.status).toBe(404);
  });
});
