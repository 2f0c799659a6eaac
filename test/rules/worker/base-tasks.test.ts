import { describe, expect, test } from 'vitest';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

/** Jobs as a queue of the base protocol sends them: without a type, the payload's `task` says what to do. */

const MESSAGES = [{ role: 'user', content: 'hi' }];
const PROCESSED_AT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

async function pushed(payload: object, more: object = {}): Promise<WorkerBench> {
  const bench = await new WorkerBench({ capacity: 4 }).readyWithBase();
  await bench.push({ job_type: undefined, payload, ...more });
  return bench;
}

describe('the model of a job from a base queue', () => {
  test.each(['gpt-4o', 'default', 'config', undefined])('named %s is the engine’s own', async (model) => {
    const bench = await pushed({ task: 'openai/chat-completion', model, messages: MESSAGES });
    expect(bench.engine.last.body.model).toBe('tiny');
    bench.engine.last.complete();
    await settled();
    expect(bench.results).toMatchObject([{ result: { completion: { model: 'tiny' } } }]);
  });

  test('is kept where the engine serves it, adapters included', async () => {
    const bench = await new WorkerBench().readyWithBase();
    bench.worker.engineHealthy(['tiny', 'my-lora']);
    await bench.push({ job_type: 'llm_inference', payload: { model: 'my-lora', messages: MESSAGES } });
    expect(bench.engine.last.body.model).toBe('my-lora');
  });

  test('of an extended queue stays as it is: that queue chose the worker by it', async () => {
    const bench = await new WorkerBench().ready();
    await bench.push({ payload: { model: 'gpt-4o', messages: MESSAGES } });
    expect(bench.engine.last.body.model).toBe('gpt-4o');
  });
});

describe('tasks of the base protocol', () => {
  test('a chat completion is the task where none is named, and the result says so', async () => {
    const bench = await pushed({ messages: MESSAGES });
    expect(bench.engine.last.body).toMatchObject({
      temperature: 0.7,
      top_p: 1,
      max_tokens: 512,
      stream: false,
    });
    bench.engine.last.complete();
    await settled();
    expect(bench.results[0]?.result).toMatchObject({
      status: 'success',
      config_id: 'config',
      task: 'openai/chat-completion',
      processed_at: PROCESSED_AT,
      completion: { id: 'chatcmpl-1', usage: { total_tokens: 5 } },
    });
  });

  test.each([
    [{ max_completion_tokens: 9 }, { max_completion_tokens: 9 }],
    [{ max_completion_tokens: 9, max_tokens: null }, { max_completion_tokens: 9 }],
    [
      { max_completion_tokens: 9, max_tokens: 7 },
      { max_completion_tokens: 9, max_tokens: 7 },
    ],
    [{ max_completion_tokens: null }, { max_completion_tokens: null, max_tokens: 512 }],
  ])('a chat completion with the limit %o goes with that alone', async (limit, sent) => {
    const bench = await pushed({ messages: MESSAGES, ...limit });
    const { max_tokens, max_completion_tokens } = bench.engine.last.body;
    expect({ max_tokens, max_completion_tokens }).toEqual(sent);
  });

  test('embeddings', async () => {
    const bench = await pushed({ task: 'openai/embeddings', model: 'e', input: 'hello', dimensions: 8 });
    expect(bench.engine.last.call.path).toBe('/v1/embeddings');
    expect(bench.engine.last.body).toEqual({ model: 'tiny', input: ['hello'], dimensions: 8 });
    bench.engine.last.json(200, {
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: [0.1, 0.2] }],
      usage: { prompt_tokens: 3, total_tokens: 3 },
    });
    await settled();
    expect(bench.results[0]?.result).toEqual({
      status: 'success',
      config_id: 'config',
      task: 'openai/embeddings',
      embeddings: [{ index: 0, embedding: [0.1, 0.2] }],
      prompt_tokens: 3,
      total_tokens: 3,
      processed_at: PROCESSED_AT,
    });
  });

  test('a task by its name as the type of a job', async () => {
    const bench = await new WorkerBench().ready();
    await bench.push({ job_type: 'openai/embeddings', payload: { input: 'hello' } });
    expect(bench.engine.last.call.path).toBe('/v1/embeddings');
  });

  test('speech', async () => {
    const bench = await pushed({ task: 'openai/audio-speech', input: 'Grüße 👋', voice: 'alloy' });
    expect(bench.engine.last.call.path).toBe('/v1/audio/speech');
    expect(bench.engine.last.body).toEqual({
      model: 'tiny',
      input: 'Grüße 👋',
      voice: 'alloy',
      response_format: 'mp3',
      speed: 1,
    });
    bench.engine.last.head(200, 'audio/mpeg').write('sound').end();
    await settled();
    expect(bench.results[0]?.result).toEqual({
      status: 'success',
      config_id: 'config',
      task: 'openai/audio-speech',
      audio_base64: Buffer.from('sound').toString('base64'),
      format: 'mp3',
      voice: 'alloy',
      input_length: 7,
      processed_at: PROCESSED_AT,
    });
  });

  test.each([
    ['in the payload', { audio_base64: Buffer.from('RIFF').toString('base64') }],
    ['at an address', { audio_url: 'https://files.example/a.wav' }],
  ])('transcription of audio %s', async (_, audio) => {
    const bench = new WorkerBench();
    bench.fetch = async () => new Response('RIFF');
    await bench.readyWithBase();
    const payload = { task: 'openai/audio-transcription', language: 'de', ...audio };
    await bench.push({ job_type: undefined, payload });
    await settled();
    const { call } = bench.engine.last;
    expect(call.path).toBe('/v1/audio/transcriptions');
    const form = await new Response(call.body, {
      headers: { 'content-type': call.contentType ?? '' },
    }).formData();
    expect(await (form.get('file') as File).text()).toBe('RIFF');
    expect([form.get('model'), form.get('language'), form.get('response_format')]).toEqual([
      'tiny',
      'de',
      'json',
    ]);
    bench.engine.last.json(200, { text: 'hallo', usage: {}, duration: 1.5 });
    await settled();
    expect(bench.results[0]?.result).toEqual({
      status: 'success',
      config_id: 'config',
      task: 'openai/audio-transcription',
      text: 'hallo',
      duration: 1.5,
      processed_at: PROCESSED_AT,
    });
  });

  test('a transcription as text', async () => {
    const bench = await pushed({
      task: 'openai/audio-transcription',
      audio_base64: 'UklGRg==',
      response_format: 'text',
    });
    await settled();
    bench.engine.last.head(200, 'text/plain').write('123').end();
    await settled();
    expect(bench.results[0]?.result).toMatchObject({ text: '123' });
  });

  test('a video made of a text', async () => {
    const bench = await pushed({ task: 'fal/text-to-video', prompt: 'a cat', num_frames: 32, seed: 7 });
    expect(bench.engine.last.call.path).toBe('/v1/videos/generations');
    expect(bench.engine.last.body).toMatchObject({
      model: 'tiny',
      size: '1280x720',
      num_frames: 32,
      seed: 7,
    });
    bench.engine.last.json(200, { data: [{ b64_json: 'dg==', seed: 7 }] });
    await settled();
    expect(bench.results[0]?.result).toMatchObject({
      task: 'fal/text-to-video',
      video_b64: 'dg==',
      width: 1280,
      duration_seconds: 2,
      seed_used: 7,
    });
  });

  test('a video made of an image', async () => {
    const bench = new WorkerBench();
    bench.fetch = async () => new Response('img', { headers: { 'content-type': 'image/png' } });
    await bench.readyWithBase();
    const payload = { task: 'fal/image-to-video', image_url: 'https://files.example/a.png' };
    await bench.push({ job_type: undefined, payload });
    await settled();
    expect(bench.engine.last.body).toMatchObject({ image: 'data:image/png;base64,aW1n' });
    bench.engine.last.json(200, { data: [{ b64_json: 'dg==' }] });
    await settled();
    expect(bench.results[0]?.result).toMatchObject({
      video_b64: 'dg==',
      source_image_url: payload.image_url,
    });
  });

  test.each([
    [{ task: 'openai/embeddings' }, 'input'],
    [{ task: 'openai/audio-speech', input: '' }, 'input'],
    [{ task: 'openai/audio-transcription' }, 'audio_base64'],
    [{ task: 'fal/text-to-image', prompt: 'a cat' }, 'not "fal/text-to-image"'],
  ])('%o fails with what is wrong with it', async (payload, problem) => {
    const bench = await pushed(payload);
    expect(bench.errors).toMatchObject([{ error: expect.stringContaining(problem) }]);
    expect(bench.engine.exchanges).toEqual([]);
  });
});

describe('an engine that fails a job of a base queue', () => {
  test('is asked twice more where it may pass, since the queue makes no other attempt', async () => {
    const bench = await pushed({ messages: MESSAGES });
    bench.engine.last.json(503, { error: { message: 'busy' } });
    await bench.clock.advance(500);
    bench.engine.last.refuse();
    await bench.clock.advance(1000);
    expect(bench.engine.exchanges).toHaveLength(3);
    bench.engine.last.complete();
    await settled();
    expect(bench.results).toHaveLength(1);
    expect(bench.errors).toEqual([]);
  });

  test('is believed the third time', async () => {
    const bench = await pushed({ messages: MESSAGES });
    for (const pause of [500, 1000, 0]) {
      bench.engine.last.json(500, { error: { message: 'oh' } });
      await bench.clock.advance(pause);
    }
    expect(bench.errors).toMatchObject([{ error: 'Error code: 500 - oh' }]);
    expect(bench.engine.exchanges).toHaveLength(3);
  });

  test('is not asked again for what it refuses', async () => {
    const bench = await pushed({ messages: MESSAGES });
    bench.engine.last.json(400, { error: { message: 'no' } });
    await bench.clock.advance(2000);
    expect(bench.errors).toMatchObject([{ error: 'Error code: 400 - no' }]);
    expect(bench.engine.exchanges).toHaveLength(1);
  });

  test('is not asked again for a job that was revoked meanwhile', async () => {
    const bench = await pushed({ messages: MESSAGES });
    bench.engine.last.json(503, { error: { message: 'busy' } });
    await settled();
    bench.queue.push({ type: 'job_revoked', job_id: 'j1', reason: 'cancelled' });
    await bench.clock.advance(2000);
    expect(bench.engine.exchanges).toHaveLength(1);
    expect(bench.errors).toEqual([]);
  });
});

test('a failed job is one line of the log, with its id, code and message', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.engine.last.json(400, { error: { message: 'too long' } });
  await settled();
  expect(bench.lines.filter(({ job_id }) => job_id === 'j1')).toEqual([
    {
      job_id: 'j1',
      code: 'engine_refused',
      http_status: 400,
      message: 'job failed: Error code: 400 - too long',
    },
  ]);
});

test('a result over 1 MiB of a job that has no address for it goes to a base queue in a frame', async () => {
  const bench = await pushed({ messages: MESSAGES }, { mode: 'transient', fence_token: 0 });
  bench.engine.last.complete('x'.repeat(3 * 1024 * 1024));
  await settled();
  expect(bench.results).toHaveLength(1);
  expect(bench.errors).toEqual([]);
});
