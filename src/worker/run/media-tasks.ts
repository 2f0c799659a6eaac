import * as z from 'zod';
import { jsonOrText, otherwise, parseValue, withMembers, writeJson } from '../../protocol/index.ts';
import { finalFailure, JobFailure } from '../failure.ts';
import type { Attempt } from './attempt.ts';
import { AUDIO_NAME, asWritten, audioName, changed, formOf, modelOf } from './request-body.ts';
import { askEngine, askEngineJson } from './whole-answer.ts';

/** The payload of a speech task; unknown fields reach the engine. */
const SpeechPayload = z.looseObject({
  input: z.string('expected a text').min(1, 'expected a text'),
  voice: otherwise(z.string(), 'default'),
  response_format: otherwise(z.string(), 'mp3'),
  speed: otherwise(z.number(), 1),
});

/** Runs `openai/audio-speech`. */
export async function runSpeech(attempt: Attempt): Promise<Record<string, unknown>> {
  const parsed = parseValue(SpeechPayload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  const fields = parsed.value;
  const { bytes } = await askEngine(attempt, '/v1/audio/speech', {
    body: withMembers(writeJson(attempt.payload), {
      ...changed(attempt.payload, fields),
      task: undefined,
      model: JSON.stringify(modelOf(attempt)),
    }),
  });
  return {
    audio_base64: bytes.toString('base64'),
    format: fields.response_format,
    voice: fields.voice,
    input_length: [...fields.input].length,
  };
}

const TranscriptionPayload = z
  .looseObject({
    audio_base64: z.string().min(1).nullish(),
    audio_url: z.string().min(1).nullish(),
    response_format: otherwise(z.string(), 'json'),
    language: z.string().nullish(),
    prompt: z.string().nullish(),
    temperature: z.number().nullish(),
  })
  .refine(({ audio_base64, audio_url }) => audio_base64 != null || audio_url != null, {
    error: 'audio_base64: expected this or audio_url',
  });

/** Runs `openai/audio-transcription` with audio in the payload or at an address. */
export async function runTranscription(attempt: Attempt): Promise<Record<string, unknown>> {
  const parsed = parseValue(TranscriptionPayload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  const { audio_base64, audio_url, response_format, language, prompt, temperature } = parsed.value;
  const audio = audio_url
    ? (await attempt.download(audio_url)).bytes
    : Buffer.from(audio_base64 ?? '', 'base64');
  const fields = { model: modelOf(attempt), response_format, language, prompt, temperature };
  const form = await formOf(audio, audio_url ? audioName(audio_url) : AUDIO_NAME, fields);
  const { bytes } = await askEngine(attempt, '/v1/audio/transcriptions', form);
  return transcriptIn(bytes.toString());
}

/** Returns the fields of a transcript that the engine gave as JSON, or the text of the other formats. */
function transcriptIn(text: string): Record<string, unknown> {
  const parsed = jsonOrText(text);
  if (typeof parsed !== 'object' || parsed === null)
    return { text: typeof parsed === 'string' ? parsed : text };
  const { text: said, language, duration, segments } = parsed as Record<string, unknown>;
  return {
    text: said ?? '',
    ...(language == null ? {} : { language }),
    ...(duration == null ? {} : { duration }),
    ...(segments == null ? {} : { segments }),
  };
}

/**
 * The route of vLLM-Omni. The fields and defaults are those of the deployed worker; this repository does not test them
 * against a real engine.
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

/** Fields of a speaking video that the worker sends only if the job names them. */
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
