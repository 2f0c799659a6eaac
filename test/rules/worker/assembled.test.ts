import { expect, it } from 'vitest';
import type { FakeExchange } from '../../support/fake-engine.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

/** Stored generations that may go on elsewhere (docs/moving.md). */
const PROMPT = [1, 2];
const PAYLOAD = { messages: [{ role: 'user', content: 'hi' }], temperature: 0, max_tokens: 40 };
const PARTIAL = {
  prompt_tokens: 2,
  ids: [1, 2, 11, 12],
  role: 'assistant',
  text: 'Once upon',
  reasoning: '',
  logprobs: null,
};

async function bench(settings: object = {}): Promise<WorkerBench> {
  return new WorkerBench({ moves: true, ...settings }).ready();
}

function event(choices: object[], more: object = {}): string {
  const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 7, model: 'tiny' };
  return `data: ${JSON.stringify({ ...head, choices, ...more })}\n\n`;
}

function opens(engine: FakeExchange, prompt: readonly number[] = PROMPT): FakeExchange {
  const opening = event([{ index: 0, delta: { role: 'assistant', content: '' } }], {
    prompt_token_ids: prompt,
  });
  return engine.head(200, 'text/event-stream; charset=utf-8').write(opening);
}

function token(id: number, content: string, finish: string | null = null): string {
  return event([{ index: 0, delta: { content }, finish_reason: finish, token_ids: [id] }]);
}

function ends(engine: FakeExchange, prompt: number, completion: number): void {
  const usage = { prompt_tokens: prompt, total_tokens: prompt + completion, completion_tokens: completion };
  engine.write(event([], { usage })).write('data: [DONE]\n\n').end();
}

it('is streamed by the engine, and its result is the answer in one piece', async () => {
  const worker = await bench();
  await worker.push({ payload: PAYLOAD });
  const { last } = worker.engine;
  expect(last.body).toMatchObject({
    stream: true,
    return_token_ids: true,
    stream_options: { include_usage: true },
  });
  ends(
    opens(last)
      .write(token(11, 'Once'))
      .write(token(12, ' upon', 'stop')),
    2,
    2,
  );
  await settled();
  expect(worker.results).toMatchObject([
    {
      result: {
        completion: {
          model: 'tiny',
          choices: [{ message: { role: 'assistant', content: 'Once upon' }, finish_reason: 'stop' }],
          usage: { prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 },
        },
      },
      usage: { prompt_tokens: 2, completion_tokens: 2 },
    },
  ]);
});

it('goes back with what has come of it, at once where the rest takes longer than the grace', async () => {
  const worker = await bench({ graceSeconds: 5 });
  await worker.push({ payload: PAYLOAD });
  opens(worker.engine.last).write(token(11, 'Once'));
  await worker.clock.advance(1000);
  worker.engine.last.write(token(12, ' upon'));
  await worker.clock.advance(0);
  worker.worker.drain();
  await settled();
  expect(worker.queue.framesOf('job_release')).toMatchObject([
    { reason: 'draining', partial: PARTIAL, timing: { first_token_ms: expect.any(Number) } },
  ]);
  expect(worker.engine.last.isAborted).toBe(true);
});

it('tells with each renewal what has come since the last one, and all of it to a new connection', async () => {
  const worker = await bench({ renewAfterSeconds: 10 });
  const parts = () => worker.queue.framesOf('renew').map(({ jobs }) => Object(jobs)[0].part);
  await worker.push({ payload: PAYLOAD });
  opens(worker.engine.last).write(token(11, 'Once'));
  await worker.live(10_000);
  worker.engine.last.write(token(12, ' upon'));
  await worker.live(10_000);
  await worker.live(10_000);
  const [first, second] = [
    { ids: [1, 2, 11], text: 'Once' },
    { ids: [12], text: ' upon' },
  ];
  expect(parts()).toEqual([
    { ...PARTIAL, ...first, after: 0 },
    { ...PARTIAL, ...second, after: 3 },
    undefined,
  ]);
  const told = worker.queue.framesOf('renew').map(({ jobs }) => Object(jobs)[0].timing);
  expect(told).toEqual([{ started_ms: 0, first_token_ms: 0 }, undefined, undefined]);
  worker.queue.push({ type: 'renewed', lease_seconds: 30, again: [{ job_id: 'j1', fence_token: 1 }] });
  await worker.live(10_000);
  expect(parts().at(-1)).toEqual({ ...PARTIAL, after: 0 });
  await worker.reconnect({ resumed: ['j1'] });
  await worker.live(10_000);
  expect(parts()).toEqual([{ ...PARTIAL, after: 0 }]);
});

it('fails with what has come of it where its engine dies', async () => {
  const worker = await bench();
  await worker.push({ payload: PAYLOAD });
  opens(worker.engine.last).write(token(11, 'Once')).write(token(12, ' upon')).die();
  await settled();
  expect(worker.errors).toMatchObject([{ code: 'engine_died', retryable: true, partial: PARTIAL }]);
});

it('fails without the text in which a stop string may have begun', async () => {
  const worker = await bench();
  await worker.push({ payload: { ...PAYLOAD, stop: 'on a' } });
  opens(worker.engine.last).write(token(11, 'Once')).write(token(12, ' upon')).end();
  await settled();
  const partial = { ...PARTIAL, ids: [1, 2, 11], text: 'Once' };
  expect(worker.errors).toMatchObject([{ code: 'engine_died', retryable: true, partial }]);
});

it('goes on from what an earlier attempt made, and counts all of it once', async () => {
  const worker = await bench();
  await worker.push({ payload: PAYLOAD, partial: PARTIAL });
  expect(worker.engine.last.call.path).toBe('/detokenize');
  worker.engine.last.json(200, { prompt: 'Once upon' });
  await settled();
  expect(worker.engine.last.body).toMatchObject({
    max_tokens: 38,
    kv_transfer_params: { prompt_token_ids: PARTIAL.ids },
  });
  ends(opens(worker.engine.last, PARTIAL.ids).write(token(13, ' a time', 'stop')), 4, 1);
  await settled();
  const usage = { prompt_tokens: 2, completion_tokens: 3 };
  expect(worker.results).toMatchObject([
    {
      result: { completion: { choices: [{ message: { content: 'Once upon a time' } }], usage } },
      usage,
    },
  ]);
});

it('goes on in tokens from the ids that it was kept with', async () => {
  const worker = await bench();
  const asked = { token_ids: PROMPT, sampling_params: { temperature: 0, max_tokens: 40 } };
  const body = JSON.stringify(asked);
  const payload = { method: 'POST', path: '/inference/v1/generate', body };
  const partial = { ...PARTIAL, text: '' };
  await worker.push({ job_type: 'engine_request', payload, partial });
  expect(worker.engine.last.body).toMatchObject({
    stream: true,
    token_ids: PARTIAL.ids,
    sampling_params: { max_tokens: 38 },
  });
  const head = { request_id: 'generate-1', output_mode: 'tokens' };
  const choice = { index: 0, token_ids: [13], finish_reason: 'stop', logprobs: null };
  const last = `data: ${JSON.stringify({ ...head, choices: [choice] })}\n\n`;
  const usage = { prompt_tokens: 4, total_tokens: 5, completion_tokens: 1 };
  const counted = `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\ndata: [DONE]\n\n`;
  worker.engine.last.head(200, 'text/event-stream; charset=utf-8').write(last).write(counted).end();
  await settled();
  expect(worker.results).toMatchObject([
    {
      result: {
        response: {
          body: {
            request_id: 'generate-1',
            choices: [{ token_ids: [11, 12, 13], finish_reason: 'stop' }],
            usage: { prompt_tokens: 2, completion_tokens: 3 },
          },
        },
      },
      usage: { prompt_tokens: 2, completion_tokens: 3 },
    },
  ]);
});

it('begins anew in one piece where its engine does not go on from token ids', async () => {
  const worker = await bench();
  await worker.push({ payload: PAYLOAD, partial: PARTIAL });
  worker.engine.last.json(200, { prompt: 'Once upon' });
  await settled();
  opens(worker.engine.last, PROMPT).write(token(13, 'Hello'));
  await settled();
  expect(worker.engine.last.body).toMatchObject({ stream: false });
  worker.engine.last.complete('hello');
  await settled();
  expect(worker.results).toMatchObject([
    { result: { completion: { choices: [{ message: { content: 'hello' } }] } } },
  ]);
});

it('goes on from its reasoning and its content once that has begun', async () => {
  const worker = await bench({ renewAfterSeconds: 10 });
  await worker.push({ payload: PAYLOAD });
  const { last } = worker.engine;
  opens(last).write(event([{ index: 0, delta: { reasoning: 'Well' }, token_ids: [11] }]));
  await worker.live(10_000);
  last.write(token(12, 'Once'));
  await worker.live(10_000);
  last.die();
  await settled();
  const partial = { ...PARTIAL, text: 'Once', reasoning: 'Well' };
  expect(worker.queue.framesOf('renew').map(({ jobs }) => Object(jobs)[0].part)).toEqual([
    undefined,
    { ...partial, after: 0 },
  ]);
  expect(worker.errors).toMatchObject([{ partial }]);
  await worker.push({ job_id: 'j2', fence_token: 2, payload: PAYLOAD, partial });
  worker.engine.last.json(200, { prompt: 'Once' });
  await settled();
  ends(opens(worker.engine.last, PARTIAL.ids).write(token(13, ' more', 'stop')), 4, 1);
  await settled();
  const message = { content: 'Once more', reasoning: 'Well' };
  expect(worker.results).toMatchObject([{ result: { completion: { choices: [{ message }] } } }]);
});

it('begins anew where its engine dies within the reasoning', async () => {
  const worker = await bench();
  await worker.push({ payload: PAYLOAD });
  const reasons = event([{ index: 0, delta: { reasoning: 'Well' }, token_ids: [11] }]);
  opens(worker.engine.last).write(reasons).die();
  await settled();
  expect(worker.errors).toMatchObject([{ code: 'engine_died', retryable: true }]);
  expect(worker.errors[0]).not.toHaveProperty('partial');
});

it('is asked for in one piece once the engine has told calls, which only it makes one piece of', async () => {
  const worker = await bench({ capacity: 2 });
  await worker.push({ payload: PAYLOAD });
  const first = worker.engine.last;
  opens(first).write(event([{ index: 0, delta: { tool_calls: [{ index: 0 }] }, token_ids: [11] }]));
  await settled();
  expect(worker.engine.last.body).toMatchObject({ stream: false });
  await worker.push({ job_id: 'j2', fence_token: 2, payload: PAYLOAD });
  expect(worker.engine.last.body).toMatchObject({ stream: false });
});

it('is not asked for twice of an engine that has too much to do', async () => {
  const worker = await bench();
  await worker.push({ payload: PAYLOAD });
  worker.engine.last.json(503, { error: { message: 'full' } });
  await settled();
  expect(worker.errors).toMatchObject([{ code: 'engine_overloaded', retryable: true, http_status: 503 }]);
});

it('is asked for in one piece of an engine that knows no token ids, which says what is wrong with it', async () => {
  const worker = await bench();
  await worker.push({ payload: PAYLOAD });
  worker.engine.last.json(400, { error: { message: 'unknown field' } });
  await settled();
  worker.engine.last.json(200, {});
  await settled();
  expect(worker.engine.last.body).toMatchObject({ stream: false });
});
