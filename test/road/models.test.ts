import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import {
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** `/v1/models`, as clients that look there see it. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_MODEL_ALIASES: 'gpt-4o=zeta,none=huge' } });
  const served = '--served-model-name zeta alpha org/middle --max-model-len 4096';
  worker = await readyWorker(queue.url, 'w', { engineArgs: served });
});
afterAll(tearDown);

type Model = Record<string, unknown>;

async function get(url: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(url);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function listed(url: string): Promise<Model[]> {
  return (await get(`${url}/v1/models`)).body.data as Model[];
}

function complete(model: string) {
  return fetch(`${queue.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt: 'a', max_tokens: 1 }),
  });
}

describe('the list of models', () => {
  it('has the engine’s own fields and order, and the pool beside them', async () => {
    const direct = await listed(worker.engineUrl);
    const through = await listed(queue.url);
    const own = (model: Model) => {
      // Made anew by each answer of the engine.
      const { created: _created, permission: _permission, pool: _config, ...rest } = model;
      return rest;
    };
    expect(through.slice(0, 3).map(own)).toEqual(direct.map(own));
    expect(through[0]).toMatchObject({
      id: 'zeta',
      root: 'tiny',
      parent: null,
      max_model_len: 4096,
      owned_by: 'vllm',
      permission: [expect.objectContaining({ object: 'model_permission' })],
      created: expect.any(Number),
      pool: { id: 'cfg', state: 'ready' },
    });
    expect(Object.keys(through[0]!).slice(0, -1)).toEqual(Object.keys(direct[0]!));
  });

  it('has aliases of models that are served', async () => {
    const aliases = (await listed(queue.url)).slice(3);
    expect(aliases).toMatchObject([{ id: 'gpt-4o', alias_of: 'zeta', max_model_len: 4096 }]);
  });

  it('has aliases that stored jobs may name too', async () => {
    const payload = { model: 'gpt-4o', messages: [{ role: 'user', content: 'a' }], max_tokens: 1 };
    const { id } = await submit(queue.url, { job_type: 'chat_completion', payload });
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'succeeded',
      result: { completion: { model: 'zeta' } },
    });
  });

  it('has each of them alone, whatever is in its name', async () => {
    for (const id of ['zeta', 'org/middle', 'org%2Fmiddle', 'gpt-4o']) {
      const { status, body } = await get(`${queue.url}/v1/models/${id}`);
      expect([status, body.id, body.root]).toEqual([200, decodeURIComponent(id), 'tiny']);
    }
    const missing = await get(`${queue.url}/v1/models/none`);
    expect(missing).toMatchObject({ status: 404, body: { error: { code: 'model_not_found' } } });
  });

  it('keeps what it was told over a restart of the queue', async () => {
    queue.process.kill('SIGTERM');
    await queue.process.exited;
    queue = await startQueue({
      port: queue.port,
      stateDir: queue.stateDir,
      env: { QUEUE_MODEL_ALIASES: 'gpt-4o=zeta' },
    });
    await until(async () => (await listed(queue.url)).length === 4, 'the worker is back');
    expect((await listed(queue.url)).map(({ id }) => id)).toEqual(['zeta', 'alpha', 'org/middle', 'gpt-4o']);
  });
});

describe('a model whose worker is gone', () => {
  it('is 503 for a day, so that its callers try again', async () => {
    expect((await complete('default')).status).toBe(200);
    worker.process.kill('SIGTERM');
    await worker.process.exited;
    expect((await complete('zeta')).status).toBe(503);
  });
});
