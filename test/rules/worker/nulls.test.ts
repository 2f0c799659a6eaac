import { expect, test } from 'vitest';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

/** Senders that write null for what they leave out. */

async function pushed(payload: object, more: object = {}): Promise<WorkerBench> {
  const bench = await new WorkerBench().readyWithBase();
  await bench.push({ job_type: undefined, payload, ...more });
  return bench;
}

test('null is a field that is left out, in all of them', async () => {
  const speech = await pushed({
    ...{ task: 'openai/audio-speech', input: 'x' },
    ...{ voice: null, response_format: null, speed: null },
  });
  expect(speech.engine.last.body).toMatchObject({ voice: 'default', response_format: 'mp3', speed: 1 });
  const transcription = await pushed({
    ...{ task: 'openai/audio-transcription', audio_base64: 'UklGRg==', audio_url: null },
    ...{ response_format: null, language: null, prompt: null, temperature: null },
  });
  await settled();
  expect(transcription.errors).toEqual([]);
  expect(String(Buffer.from(transcription.engine.last.call.body!))).toMatch(/response_format"\s+json/);
  const video = await pushed({
    ...{ task: 'fal/text-to-video', prompt: 'a cat', num_frames: null, width: null, height: null },
    ...{ fps: null, num_inference_steps: null, guidance_scale: null },
  });
  expect(video.engine.last.body).toMatchObject({
    ...{ size: '1280x720', num_frames: 81, fps: 16, num_inference_steps: 50, guidance_scale: 7 },
  });
});

test('a job frame may write null for what it leaves out', async () => {
  const nothing = Object.fromEntries(
    [
      ...['mode', 'config_id', 'fence_token', 'payload_url', 'result_upload_url', 'job_type', 'attempt'],
      ...['deadline_ms', 'lease_seconds', 'trace', 'stream_id', 'account'],
    ].map((name) => [name, null]),
  );
  const bench = await pushed({ messages: [{ role: 'user', content: 'hi' }] }, nothing);
  bench.engine.last.complete();
  await settled();
  expect(bench.results).toMatchObject([{ job_id: 'j1', result: { status: 'success' } }]);
});
