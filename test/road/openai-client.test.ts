import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { ANSWERED_FIRST } from '../support/raw-worker.ts';
import {
  engineRunning,
  isDeployed,
  type QueueProcess,
  readyWorker,
  setPace,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** The application developer's view: the official client, pointed at the gateway. */
let queue: QueueProcess;
let worker: WorkerProcess;
let client: OpenAI;

beforeAll(async () => {
  queue = await startQueue();
  worker = await readyWorker(queue.url, 'w', { engineArgs: '--inter-token-latency-ms 2' });
  client = new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(tearDown);

const messages = [{ role: 'user' as const, content: 'Say hello to the road.' }];

describe('the official OpenAI client', () => {
  it('gets a completion', async () => {
    const completion = await client.chat.completions.create({ model: 'tiny', messages, max_tokens: 12 });
    expect(completion.object).toBe('chat.completion');
    expect(completion.choices[0]?.message.content).toBeTruthy();
    expect(completion.usage?.completion_tokens).toBe(12);
  });

  it('streams one, with the same text as without streaming, its finish and its usage', async () => {
    const request = { model: 'tiny', messages, max_tokens: 40, temperature: 0, seed: 1 };
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
      finish: whole.choices[0]?.finish_reason,
      usage: whole.usage?.completion_tokens,
    });
  });

  it('lists the models', async () => {
    const models = await client.models.list();
    expect(models.data.map((model) => model.id)).toEqual(['tiny']);
  });

  it('gets the engine’s own refusal, status and words', async () => {
    const request = { model: 'tiny', messages, temperature: -5 };
    const refused = client.chat.completions.create(request, { headers: ANSWERED_FIRST });
    await expect(refused).rejects.toMatchObject({
      status: 400,
      error: { type: expect.stringContaining('Bad') },
    });
  });

  it('is told which models there are when it asks for another', async () => {
    const refused = client.chat.completions.create({ model: 'huge', messages });
    await expect(refused).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
    await expect(refused).rejects.toThrow(/tiny/);
  });

  it('may ask for the default model, or for the pool', async () => {
    for (const model of ['default', 'cfg']) {
      const completion = await client.chat.completions.create({ model, messages, max_tokens: 2 });
      expect(completion.model).toBe('tiny');
    }
  });

  it.skipIf(isDeployed)('stops the engine when it hangs up in the middle of a stream', async () => {
    const stream = await client.chat.completions.create({
      model: 'tiny',
      messages,
      max_tokens: 20_000,
      stream: true,
      ...{ ignore_eos: true },
    });
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) break;
    }
    stream.controller.abort();
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine runs nothing');
  });

  it.skipIf(isDeployed)(
    'stops the engine when it hangs up on a long request that is not streamed',
    async () => {
      const hangUp = new AbortController();
      const request = { model: 'tiny', messages, max_tokens: 30_000, ...{ ignore_eos: true } };
      const answer = client.chat.completions
        .create(request, { signal: hangUp.signal })
        .catch(() => 'hung up');
      await until(async () => (await engineRunning(worker.engineUrl)) === 1, 'the engine runs it');
      hangUp.abort();
      expect(await answer).toBe('hung up');
      await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine runs nothing');
    },
  );

  it('reads a long answer that was begun with blanks', async () => {
    const answer = await client.chat.completions.create({
      model: 'tiny',
      messages,
      max_tokens: 6000,
      ...{ ignore_eos: true },
    });
    expect(answer.usage?.completion_tokens).toBe(6000);
  });

  it('has eight requests answered side by side', async () => {
    await setPace(worker.engineUrl, 2000);
    const running = Array.from({ length: 8 }, (_, n) =>
      client.chat.completions.create({
        model: 'tiny',
        messages: [{ role: 'user', content: `Question ${n}` }],
        max_tokens: 1500,
        ...{ ignore_eos: true },
      }),
    );
    await until(async () => (await engineRunning(worker.engineUrl)) === 8, 'the engine runs eight at once');
    await setPace(worker.engineUrl, 0);
    const completions = await Promise.all(running);
    expect(completions.map((completion) => completion.usage?.completion_tokens)).toEqual(Array(8).fill(1500));
  });
});
