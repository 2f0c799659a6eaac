import * as z from 'zod';
import { otherwise, parseValue } from '../../protocol/index.ts';
import { finalFailure, JobFailure } from '../failure.ts';
import { askEngineJson } from './ask-engine.ts';
import type { Attempt } from './attempt.ts';
import { asWritten, modelOf } from './task-fields.ts';

/**
 * The route of vLLM-Omni. The fields and defaults are those of the deployed worker; not tested here against a real
 * engine.
 */
const PATH = '/v1/videos/generations';

const address = z.string('expected an address').min(1, 'expected an address');

const Frames = z.looseObject({
  negative_prompt: z.string().nullish(),
  num_frames: otherwise(z.number(), 81),
  width: otherwise(z.number(), 1280),
  height: otherwise(z.number(), 720),
  fps: otherwise(z.number().positive(), 16),
  num_inference_steps: otherwise(z.number(), 50),
  guidance_scale: otherwise(z.number(), 7),
  seed: z.number().nullish(),
});
type Frames = z.infer<typeof Frames>;

const TextToVideo = Frames.extend({
  prompt: z.string('expected a text').min(1, 'expected a text'),
});
const ImageToVideo = Frames.extend({ image_url: address, prompt: z.string().nullish() });
const SpeechToVideo = z.looseObject({ audio_url: address, image_url: address });

/** Fields of a speaking video that the worker sends only where the job names them. */
const SPOKEN_FIELDS = ['prompt', 'num_inference_steps', 'guidance_scale', 'seed', 'num_frames', 'fps'];
const IMAGE_TYPES = ['image/jpeg', 'image/png', 'image/webp', 'image/gif'];

/** Runs `fal/text-to-video`. */
export async function runTextToVideo(attempt: Attempt): Promise<Record<string, unknown>> {
  const payload = read(TextToVideo, attempt.payload);
  return await generate(attempt, payload, { prompt: payload.prompt });
}

/** Runs `fal/image-to-video`. */
export async function runImageToVideo(attempt: Attempt): Promise<Record<string, unknown>> {
  const payload = read(ImageToVideo, attempt.payload);
  const image = await imageAt(attempt, payload.image_url);
  const prompt = payload.prompt || 'Animate this image naturally';
  return {
    ...(await generate(attempt, payload, { prompt, image })),
    source_image_url: payload.image_url,
  };
}

/** Runs `fal/speech-to-video`. */
export async function runSpeechToVideo(attempt: Attempt): Promise<Record<string, unknown>> {
  const payload: Record<string, unknown> & z.infer<typeof SpeechToVideo> = read(
    SpeechToVideo,
    attempt.payload,
  );
  const { audio_url, image_url } = payload;
  const { bytes } = await attempt.download(audio_url);
  const named = SPOKEN_FIELDS.filter((name) => payload[name] !== undefined && payload[name] !== null);
  const body = await askEngineJson(
    attempt,
    PATH,
    asWritten(
      {
        model: modelOf(attempt),
        audio: dataUri('audio/wav', bytes),
        image: await imageAt(attempt, image_url),
        ...Object.fromEntries(named.map((name) => [name, payload[name]])),
      },
      attempt.payload,
    ),
  );
  const video = firstVideo(body);
  const { width, height, num_frames, fps, duration_seconds, inference_time_seconds, seed_used } = video;
  return {
    video_b64: video.video_b64 ?? video.b64_json,
    ...{ width, height, num_frames, fps, duration_seconds, inference_time_seconds, seed_used },
    source_audio_url: audio_url,
    source_image_url: image_url,
  };
}

async function generate(attempt: Attempt, frames: Frames, more: object): Promise<Record<string, unknown>> {
  const { width, height, num_frames, fps, num_inference_steps, guidance_scale, negative_prompt, seed } =
    frames;
  const startedAt = Date.parse(attempt.timestamp());
  const body = await askEngineJson(
    attempt,
    PATH,
    asWritten(
      {
        model: modelOf(attempt),
        ...more,
        n: 1,
        size: `${width}x${height}`,
        ...{ num_frames, num_inference_steps, guidance_scale, fps },
        response_format: 'b64_json',
        ...(negative_prompt ? { negative_prompt } : {}),
        ...(seed == null ? {} : { seed }),
      },
      attempt.payload,
    ),
  );
  const video = firstVideo(body);
  return {
    video_b64: video.b64_json,
    ...{ width, height, num_frames, fps },
    duration_seconds: num_frames / fps,
    inference_time_seconds: (Date.parse(attempt.timestamp()) - startedAt) / 1000,
    seed_used: video.seed ?? null,
  };
}

/** Returns the first video of an answer. @throws JobFailure */
function firstVideo(body: unknown): Record<string, unknown> {
  const { data } = Object(body) as { data?: Record<string, unknown>[] };
  const video = Object(Array.isArray(data) ? data[0] : body) as Record<string, unknown>;
  if (typeof (video.b64_json ?? video.video_b64) === 'string') return video;
  const message = 'the engine answered 200 with something that is no video';
  throw new JobFailure({ message, code: 'engine_error', retryable: true });
}

async function imageAt(attempt: Attempt, url: string): Promise<string> {
  const { bytes, contentType } = await attempt.download(url);
  const [type = ''] = contentType.split(';');
  return dataUri(IMAGE_TYPES.includes(type.trim()) ? type.trim() : 'image/jpeg', bytes);
}

function dataUri(type: string, bytes: Buffer): string {
  return `data:${type};base64,${bytes.toString('base64')}`;
}

function read<T>(schema: z.ZodType<T>, payload: object): T {
  const parsed = parseValue(schema, payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  return parsed.value;
}
