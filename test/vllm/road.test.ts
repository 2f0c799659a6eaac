import { spawnSync } from 'node:child_process';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureVllm, TINY_MODEL_VARIABLES, type VllmInstall } from '../../scripts/vllm/setup.ts';
import { EXIT } from '../../src/process/index.ts';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import {
  beginJob,
  chatJob,
  engineRunning,
  job,
  processesOfGroup,
  processesWith,
  type QueueProcess,
  settled,
  startQueue,
  startWorker,
  submit,
  tearDown,
  untilReady,
  type WorkerProcess,
} from '../support/road.ts';
import { readThrough, seenAtWork } from '../support/seen-at-work.ts';
import { clientsOverVllm, TOOL_ARGS } from './clients.ts';
import { LONG, openLongStream } from './long-stream.ts';
import { START_LIMIT, START_SECONDS } from './worker.ts';

/** The road over the real engine: queue, supervisor, worker and `vllm serve` as their users start them. */
let vllm: VllmInstall;
let queue: QueueProcess;
let worker: WorkerProcess;
let client: OpenAI;

const options = () => ({
  engineArgs: TOOL_ARGS.join(' '),
  env: {
    ...vllm.env,
    ENGINE: 'vllm',
    VLLM_MODEL: vllm.modelDir,
    ...TINY_MODEL_VARIABLES,
    MAX_MODEL_LEN: '2048',
    SERVED_MODEL_NAME: 'tiny,small',
    VLLM_SERVE_COMMAND: vllm.vllmCommand,
    VLLM_STARTUP_TIMEOUT: String(START_SECONDS),
    CASOLA_SHUTDOWN_GRACE_PERIOD: '4',
  },
});

beforeAll(async () => {
  vllm = await ensureVllm();
  queue = await startQueue();
  worker = await startWorker(queue.url, 'real', options());
  await until(
    async () => worker.process.output().includes('taking jobs') && (await untilReady(queue.url, 'real')),
    'the worker takes jobs',
    START_LIMIT,
  );
  client = new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(tearDown);

const messages = [{ role: 'user' as const, content: 'Say hello.' }];
/** Parameters of vLLM's that the client's types do not know. */
const extra = (more: object) => more as Record<string, never>;

clientsOverVllm(() => ({ vllm, queueUrl: queue.url }));

describe('the road over real vLLM', () => {
  it('has given it what the variables say', async () => {
    const models = await (await fetch(`${worker.engineUrl}/v1/models`)).json();
    expect(models).toMatchObject({
      data: [
        { id: 'tiny', max_model_len: 2048 },
        { id: 'small', max_model_len: 2048 },
      ],
    });
  });

  it('streams, with the text, finish and usage of the same request not streamed', async () => {
    const request = {
      model: 'tiny',
      messages,
      max_tokens: 40,
      temperature: 0,
      seed: 1,
      ...extra({ ignore_eos: true }),
    };
    const whole = await client.chat.completions.create(request);
    const stream = await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let finish: string | null = null;
    let usage: number | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage?.completion_tokens ?? usage;
    }
    expect({ text, finish, usage }).toEqual({
      text: whole.choices[0]?.message.content,
      finish: 'length',
      usage: 40,
    });
  });

  it('passes on what vLLM says of a mistake', async () => {
    const refused = client.chat.completions.create({ model: 'tiny', messages, max_tokens: 1_000_000 });
    await expect(refused).rejects.toMatchObject({ status: 400, error: { type: 'BadRequestError' } });
  });

  it('serves the official Python client, streaming and not', () => {
    const script = `
from openai import OpenAI
client = OpenAI(base_url="${queue.url}/v1", api_key="none", max_retries=0)
messages = [{"role": "user", "content": "Say hello."}]
whole = client.chat.completions.create(model="tiny", messages=messages, max_tokens=16, temperature=0, extra_body={"ignore_eos": True})
pieces = client.chat.completions.create(model="tiny", messages=messages, max_tokens=16, temperature=0, stream=True, extra_body={"ignore_eos": True})
text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
assert text == whole.choices[0].message.content, (text, whole)
assert whole.usage.completion_tokens == 16
print("models", [model.id for model in client.models.list()])
`;
    const python = spawnSync(vllm.python, ['-c', script], { encoding: 'utf8', timeout: 60_000 });
    expect(`${python.stdout}${python.stderr}`).toContain("models ['tiny', 'small']");
  });

  it('runs a queue job with the seed’s defaults and result form', async () => {
    const { id } = await submit(queue.url, {
      job_type: 'llm_inference',
      payload: { messages, max_tokens: 6, ignore_eos: true },
    });
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'succeeded',
      result: {
        status: 'success',
        job_type: 'llm_inference',
        completion: {
          model: 'tiny',
          usage: { completion_tokens: 6 },
          choices: [{ finish_reason: 'length' }],
        },
      },
    });
  });

  it('stops the engine’s generation when a streaming caller hangs up, and when a job is cancelled', async () => {
    const runs = async () => (await engineRunning(worker.engineUrl)) === 1;
    const request = { model: 'tiny', messages, max_tokens: 1900, ...extra({ ignore_eos: true }) };
    const open = async () => {
      const stream = await client.chat.completions.create({ ...request, stream: true });
      return { stream, ...readThrough(stream) };
    };
    const { stream } = await seenAtWork(
      open,
      async ({ pieces }) => pieces() > 1 && (await runs()),
      'the stream runs',
    );
    stream.controller.abort();
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine runs nothing');

    const cancel = async (id: string) =>
      ((await (await fetch(`${queue.url}/api/jobs/${id}`, { method: 'DELETE' })).json()) as JobView).state;
    const { id } = await seenAtWork(
      () => beginJob(queue.url, chatJob(1900)),
      async ({ id }) => (await runs()) && (await cancel(id)) === 'cancelled',
      'a job that runs is cancelled',
    );
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine runs nothing again');
    expect((await job(queue.url, id)).state).toBe('cancelled');
  });

  it('answers eight callers side by side', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        client.chat.completions.create({
          model: 'tiny',
          messages: [{ role: 'user', content: `Question ${n}` }],
          max_tokens: 100,
          ...extra({ ignore_eos: true }),
        }),
      ),
    );
    expect(answers.map((answer) => answer.usage?.completion_tokens)).toEqual(Array(8).fill(100));
  });

  // Last: the worker ends with it.
  it('drains on SIGTERM: what it cuts off is no result, the rest is released, nothing is left running', async () => {
    const stream = await openLongStream(queue.url);
    const { model: _theirs, ...payload } = LONG;
    const long = await Promise.all(
      Array.from({ length: 3 }, () => submit(queue.url, chatJob(1900, { payload }))),
    );
    await until(async () => (await engineRunning(worker.engineUrl)) > 0, 'the long jobs run');
    const short = await submit(queue.url, {
      ...chatJob(5),
      payload: { messages, max_tokens: 5, ignore_eos: true },
    });
    await until(async () => (await job(queue.url, short.id)).state !== 'pending', 'the short one was pushed');
    const [engine] = await processesWith(`--port\0${worker.enginePort}`);
    // API server, engine core, worker and resource tracker.
    expect((await processesOfGroup(engine as number)).length).toBeGreaterThan(2);
    worker.process.kill('SIGTERM');
    expect((await worker.process.exited).code).toBe(EXIT.ok);
    expect(await stream.ended).toBeInstanceOf(Error);
    expect(stream.finishes).not.toContain('abort');
    const states = await Promise.all(long.map(async ({ id }) => await job(queue.url, id)));
    for (const view of states) {
      expect(['pending', 'succeeded']).toContain(view.state);
      expect(view.attempt_errors).toEqual([]);
      if (view.state === 'succeeded') expect(JSON.stringify(view.result)).not.toContain('"abort"');
    }
    expect(states.some((view) => view.state === 'pending')).toBe(true);
    expect(await processesOfGroup(engine as number)).toEqual([]);
  });
});
