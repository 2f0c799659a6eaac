import * as z from 'zod';
import { jsonOrText, otherwise, parseValue, withMembers, writeJson } from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import { askEngine } from './ask-engine.ts';
import type { Attempt } from './attempt.ts';
import { formOf } from './audio-form.ts';
import { changed, modelOf } from './task-fields.ts';

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

/** Runs `openai/audio-transcription`, of audio in the payload or at an address. */
export async function runTranscription(attempt: Attempt): Promise<Record<string, unknown>> {
  const parsed = parseValue(TranscriptionPayload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  const { audio_base64, audio_url, response_format, language, prompt, temperature } = parsed.value;
  const audio = audio_url
    ? (await attempt.download(audio_url)).bytes
    : Buffer.from(audio_base64 ?? '', 'base64');
  const fields = { model: modelOf(attempt), response_format, language, prompt, temperature };
  const form = await formOf(audio, fields);
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
