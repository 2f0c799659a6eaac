import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type MiniflareQueue, startMiniflareQueue } from '../support/miniflare-queue.ts';
import { until } from '../support/poll.ts';
import {
  ANSWERED_FIRST,
  closeRawWorkers,
  type JobFrame,
  RawWorker,
  REFUSED_FIRST,
} from '../support/raw-worker.ts';

/** What callers get from a worker that speaks only the base protocol, through gateway and queue. */
let road: MiniflareQueue;
let worker: RawWorker;
beforeAll(async () => {
  road = await startMiniflareQueue({});
});
afterEach(closeRawWorkers);
afterAll(() => road.stop());

async function ask(path: string, body: object, result: object) {
  worker = await (await new RawWorker(road.url).connect()).register('base', { base: true });
  const answer = fetch(road.url + path, {
    method: 'POST',
    headers: ANSWERED_FIRST,
    body: JSON.stringify(body),
  });
  const job = await until(
    () => worker.frames.find((frame): frame is JobFrame => frame.type === 'job'),
    'the worker has the job',
  );
  // It keeps no token of a job whose caller waits.
  worker.send({
    type: 'job_result',
    job_id: job.job_id,
    fence_token: 0,
    result: { status: 'success', ...result },
  });
  return { job, response: await answer };
}

describe('a base worker', () => {
  it('gives embeddings', async () => {
    const body = { model: 'cfg', input: ['a'] };
    const embeddings = [{ index: 0, embedding: [0.5] }];
    const { job, response } = await ask('/v1/embeddings', body, {
      task: 'openai/embeddings',
      embeddings,
      prompt_tokens: 1,
      total_tokens: 1,
    });
    expect(job).toMatchObject({ mode: 'transient', payload: { task: 'openai/embeddings', ...body } });
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
        model: 'cfg',
        usage: { prompt_tokens: 1, total_tokens: 1 },
      },
    ]);
  });

  it('gives speech', async () => {
    const body = { model: 'cfg', input: 'hello', voice: 'alloy' };
    const audio = Buffer.from([0, 255, 128]);
    const result = { task: 'openai/audio-speech', audio_base64: audio.toString('base64'), format: 'mp3' };
    const { job, response } = await ask('/v1/audio/speech', body, result);
    expect(job.payload).toMatchObject({ task: 'openai/audio-speech', ...body });
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'audio/mpeg']);
    expect(Buffer.from(await response.arrayBuffer())).toEqual(audio);
  });

  it.each([
    [
      { completion: { choices: [{ index: 0, message: {}, finish_reason: 'error' }] } },
      500,
      /does not say why/,
    ],
    [
      { completion: { choices: [{ index: 0, message: {}, finish_reason: 'abort' }] } },
      502,
      /before it was finished/,
    ],
    [
      {
        response: {
          status: 200,
          content_type: 'application/json',
          body: { error: { message: 'too long', code: 400 } },
        },
      },
      400,
      /too long/,
    ],
  ])('gives an error of its engine that it took for a result: %j', async (result, status, said) => {
    const { response } = await ask('/v1/chat/completions', { model: 'cfg', messages: [] }, result);
    expect([response.status, await response.text()]).toEqual([status, expect.stringMatching(said)]);
  });

  it.each(['/v1/completions', '/v1/responses', '/v1/messages', '/v1/audio/transcriptions'])(
    'has no %s, which is said with 501',
    async (path) => {
      worker = await (await new RawWorker(road.url).connect()).register('base', { base: true });
      const body = JSON.stringify({ model: 'cfg', prompt: 'x', input: 'x', max_tokens: 1, messages: [] });
      const response = await fetch(road.url + path, { method: 'POST', headers: REFUSED_FIRST, body });
      expect(response.status).toBe(501);
      expect(await response.text()).toContain(`cannot run POST ${path}`);
    },
  );
});
