import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ENGINE_ROUTES } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { ANSWERED_FIRST } from '../support/raw-worker.ts';
import {
  engineRunning,
  type QueueProcess,
  readyWorker,
  setPaces,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Names that stand for models by weights, with fall-backs, as callers see them. */
let queue: QueueProcess;
let big: WorkerProcess;
let small: WorkerProcess;

const ALIASES = {
  'gpt-4o': {
    to: [
      { model: 'big', weight: 1 },
      { model: 'small', weight: 1 },
    ],
  },
  sure: { to: [{ model: 'big' }], then: ['small'], on: ['failed', 'too_long', 'no_worker'] },
  absent: { to: [{ model: 'nowhere' }], then: ['outer'], on: ['no_worker'] },
  outer: { to: [{ model: 'small' }] },
};

async function apply(aliases: object): Promise<void> {
  const response = await fetch(`${queue.url}/api/fleet/spec`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ spec: { providers: {}, pools: {}, aliases } }),
  });
  expect([response.status, await response.json()]).toMatchObject([200, { applied: true }]);
}

beforeAll(async () => {
  queue = await startQueue();
  const args = (name: string, length: number) =>
    `--served-model-name ${name} --max-model-len ${length} --inter-token-latency-ms 5`;
  [big, small] = await Promise.all([
    readyWorker(queue.url, 'w-big', {
      engineArgs: args('big', 64),
      env: { CASOLA_CONFIG_ID: 'pool-big', CASOLA_MAX_JOBS: '40' },
    }),
    readyWorker(queue.url, 'w-small', {
      engineArgs: args('small', 4096),
      env: { CASOLA_CONFIG_ID: 'pool-small', CASOLA_MAX_JOBS: '40' },
    }),
  ]);
  await apply(ALIASES);
});
afterAll(tearDown);

/** A response that begins early has no header for the model that served. */
async function ask(model: string, more: object = {}, headers: Record<string, string> = ANSWERED_FIRST) {
  const response = await fetch(`${queue.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model, prompt: 'a', max_tokens: 4, ...more }),
  });
  const body = (await response.json()) as { model?: string };
  return {
    status: response.status,
    model: body.model,
    served: response.headers.get('x-served-model'),
    fallback: response.headers.get('x-fallback'),
  };
}

const served = (model: string, fallback: string | null = null) => ({
  status: 200,
  model,
  served: model,
  fallback,
});

describe('an alias', () => {
  it('keeps a session at one model, and divides sessions among its models', async () => {
    const sessions = Array.from({ length: 16 }, (_, index) => `session-${index}`);
    const models = async () =>
      Promise.all(sessions.map(async (id) => (await ask('gpt-4o', {}, { 'X-Session-Id': id })).model));
    const first = await models();
    expect(new Set(first)).toEqual(new Set(['big', 'small']));
    expect(await models()).toEqual(first);
    const byBody = sessions.map(async (id) => (await ask('gpt-4o', { prompt_cache_key: id })).model);
    expect(await Promise.all(byBody)).toEqual(first);
  });

  it('goes on to its fall-back where its model has no worker, an alias within it too', async () => {
    expect(await ask('absent')).toEqual(served('small', 'no_worker'));
  });

  it('goes on where the prompt is too long for its model, and else gives the error', async () => {
    expect(await ask('sure')).toEqual(served('big'));
    const long = { prompt: 'word '.repeat(200) };
    expect(await ask('sure', long)).toEqual(served('small', 'too_long'));
    expect(await ask('sure', long, { 'X-Request-Timeout': '600', ...ANSWERED_FIRST })).toEqual(
      served('small', 'too_long'),
    );
    expect(await ask('big', long)).toMatchObject({ status: 400 });
    const wrong = await ask('sure', { temperature: 'hot' });
    expect(wrong).toMatchObject({ status: 400, fallback: null });
  });

  it('goes on where the engine fails', async () => {
    const fault = (times: number) =>
      fetch(`${big.engineUrl}/simulator/faults`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ error_500: times }),
      });
    expect((await fault(20)).status).toBe(200);
    expect(await ask('sure')).toEqual(served('small', 'failed'));
    await fault(0);
    expect(await ask('sure')).toEqual(served('big'));
  });

  it('names the model that served in the body of a response that began early, which has no header for it', async () => {
    const early = { status: 200, model: 'small', served: null, fallback: null };
    expect(await ask('absent', { max_tokens: 600, ignore_eos: true }, {})).toEqual(early);
    const response = await fetch(`${queue.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'absent', prompt: 'a '.repeat(2000), max_tokens: 2, stream: true }),
    });
    const events = (await response.text()).split('\n').filter((line) => line.startsWith('data: {'));
    expect(events.length).toBeGreaterThan(0);
    for (const event of events) expect(JSON.parse(event.slice(6))).toMatchObject({ model: 'small' });
    const metrics = await (await fetch(`${queue.url}/metrics`)).text();
    expect(metrics).toMatch(/worker_vllm_alias_fall_backs_total\{alias="absent",cause="no_worker"\} \d/);
  });

  it('is in the list of models with its steps', async () => {
    const list = (await (await fetch(`${queue.url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(list.data.find(({ id }) => id === 'sure')).toMatchObject({
      alias: true,
      alias_of: 'big',
      max_model_len: 64,
      steps: [
        { model: 'big', weight: 1 },
        { model: 'small', on: ['failed', 'too_long', 'no_worker'] },
      ],
    });
  });

  it.each(ENGINE_ROUTES.filter(({ methods, path }) => methods.includes('POST') && !path.includes('{')))(
    'is known to $path',
    async ({ path }) => {
      const body = (model: string) => ({
        method: 'POST',
        headers: { 'content-type': 'application/json', ...ANSWERED_FIRST },
        body: JSON.stringify({
          model,
          input: 'a',
          prompt: 'a',
          messages: [{ role: 'user', content: 'a' }],
          max_tokens: 2,
        }),
      });
      const [direct, through] = await Promise.all([
        fetch(`${small.engineUrl}${path}`, body('small')),
        fetch(`${queue.url}${path}`, body('outer')),
      ]);
      expect(through.status).toBe(direct.status);
      if (through.status !== 404) expect(await through.text()).not.toContain('outer');
    },
  );

  it('may be asked for by stored jobs, lines of batches and RunPod’s routes', async () => {
    const payload = { model: 'absent', messages: [{ role: 'user', content: 'a' }], max_tokens: 1 };
    const { id } = await submit(queue.url, { job_type: 'chat_completion', payload });
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'succeeded',
      result: { completion: { model: 'small' } },
    });
    const ledger = await (await fetch(`${queue.url}/api/jobs/${id}/ledger`)).text();
    expect(ledger).toContain('the alias absent means small, after no_worker');
    const run = await fetch(`${queue.url}/v2/absent/runsync`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input: { prompt: 'a', sampling_params: { max_tokens: 1 } } }),
    });
    expect(await run.json()).toMatchObject({ status: 'COMPLETED' });
    const form = new FormData();
    form.set('purpose', 'batch');
    const line = {
      custom_id: 'one',
      method: 'POST',
      url: '/v1/completions',
      body: { model: 'absent', prompt: 'a', max_tokens: 1 },
    };
    form.set('file', new Blob([JSON.stringify(line)]), 'in.jsonl');
    const file = (await (await fetch(`${queue.url}/v1/files`, { method: 'POST', body: form })).json()) as {
      id: string;
    };
    const made = await fetch(`${queue.url}/v1/batches`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input_file_id: file.id, endpoint: '/v1/completions', completion_window: '24h' }),
    });
    const batch = (await made.json()) as { id: string };
    const done = await until(async () => {
      const now = (await (await fetch(`${queue.url}/v1/batches/${batch.id}`)).json()) as {
        status: string;
        output_file_id?: string;
      };
      return now.status === 'completed' ? now : null;
    }, 'the batch is done');
    const output = await (await fetch(`${queue.url}/v1/files/${done.output_file_id}/content`)).text();
    expect(output).toContain('"model":"small"');
  });
});

it('sends copies of requests to its mirror, and the caller reads only its own answer', async () => {
  await apply({ copied: { to: [{ model: 'big' }], mirror: { model: 'small', share: 1 } } });
  expect(await ask('copied')).toEqual(served('big'));
  const streamed = await fetch(`${queue.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'copied', prompt: 'a', max_tokens: 4, stream: true }),
  });
  expect(await streamed.text()).not.toContain('small');
  const line = 'worker_vllm_mirrored_requests_total{alias="copied",model="small",outcome="succeeded"} 2';
  await until(
    async () => (await (await fetch(`${queue.url}/metrics`)).text()).includes(line),
    'both copies have ended',
  );
  const copies = async () => {
    const listed = await fetch(`${queue.url}/api/requests?model=small`);
    const { requests } = (await listed.json()) as { requests: { fallback?: string }[] };
    return requests.filter(({ fallback }) => fallback === 'mirror').length;
  };
  await until(async () => (await copies()) === 2, 'their records are listed');
});

it('keeps 200 streams as they are while its weights change', async () => {
  const alias = (big: number, small: number) => ({
    'gpt-4o': {
      to: [
        { model: 'big', weight: big },
        { model: 'small', weight: small },
      ],
    },
  });
  const stream = async (session: number) => {
    const response = await fetch(`${queue.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'X-Session-Id': `s${session}` },
      body: JSON.stringify({ model: 'gpt-4o', prompt: 'a', max_tokens: 40, ignore_eos: true, stream: true }),
    });
    const events = (await response.text()).split('\n\n').filter(Boolean);
    const data = events
      .filter((event) => event.startsWith('data: {'))
      .map((event) => JSON.parse(event.slice(6)));
    expect([response.status, events.at(-1), data.at(-1)?.choices[0].finish_reason]).toEqual([
      200,
      'data: [DONE]',
      'length',
    ]);
    return [...new Set(data.map(({ model }) => model as string))];
  };
  await apply(alias(9, 1));
  await setPaces([big, small], 2000);
  const streams = Array.from({ length: 200 }, (_, session) => stream(session));
  await until(async () => (await engineRunning(big.engineUrl)) > 0, 'streams run');
  for (const [one, other] of [
    [5, 5],
    [1, 9],
    [0, 1],
  ] as const)
    await apply(alias(one, other));
  await setPaces([big, small], 5);
  const models = await Promise.all(streams);
  expect(models.every((of) => of.length === 1)).toBe(true);
  expect(new Set(models.flat())).toEqual(new Set(['big', 'small']));
  expect((await ask('gpt-4o')).model).toBe('small');
});
