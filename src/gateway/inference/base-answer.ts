import {
  type ApiError,
  bytesOfBase64,
  type ChatCompletionSummary,
  type EngineRequestResult,
  EVENT_STREAM,
  fieldsOf,
  messageOf,
  openAIError,
  readWholeAnswer,
  runpodOutput,
  writeJson,
  writeJsonLine,
} from '../../protocol/index.ts';
import type { RequestFacts } from '../../request-facts/body-facts.ts';
import { engineResponse } from '../errors.ts';

/**
 * Makes an answer of a finished `job_result`, for workers that have no answer socket: the result holds only what the
 * base protocol reports, so the fields that the OpenAI API adds are completed here.
 * @param createdSeconds epoch seconds for `created`
 * @returns null when the result holds no answer to this request; an error response where the engine reported an error
 */
export function answerFromResult(
  result: Record<string, unknown>,
  facts: RequestFacts,
  createdSeconds: number,
): Response | null {
  const error = errorIn(result);
  if (error !== null)
    return engineResponse(error.status, JSON.stringify(openAIError(error)), 'application/json');
  const completion = result.completion as ChatCompletionSummary | undefined;
  if (Array.isArray(completion?.choices)) {
    return facts.stream
      ? streamed(completion, facts.includeUsage, createdSeconds)
      : Response.json({ object: 'chat.completion', created: createdSeconds, ...completion });
  }
  if (Array.isArray(result.embeddings)) return embeddings(result, facts.model);
  if (typeof result.audio_base64 === 'string') return speech(result.audio_base64, result.format);
  if (typeof result.text === 'string') return transcription(result);
  if (result.job_type === 'runpod') return runpodEvents(runpodOutput(result));
  const response = result.response as EngineRequestResult['response'] | undefined;
  if (typeof response?.status !== 'number') return null;
  const body = typeof response.body === 'string' ? response.body : writeJson(response.body);
  return engineResponse(response.status, body, response.content_type ?? 'application/json');
}

/** Returns the engine's error that its worker took for a result, or null. */
function errorIn(result: Record<string, unknown>): ApiError | null {
  const { failed } = saidIn(result);
  return failed && { status: failed.status, message: messageOf(failed), code: 'engine_error' };
}

/** Returns whether the engine gave up the answer that its worker took for a result: a waiting caller can ask again. */
export function isGivenUp(result: Record<string, unknown>): boolean {
  return saidIn(result).isGivenUp;
}

function saidIn({ completion, response }: Record<string, unknown>): ReturnType<typeof readWholeAnswer> {
  const { status, body } = fieldsOf(response);
  return readWholeAnswer('', completion ?? (Number(status) < 300 ? body : null));
}

/** Returns what a job in RunPod's form yielded, in the form in which its worker streams it. */
function runpodEvents(output: unknown[]): Response {
  const text = output.map((piece) => `data: ${writeJsonLine({ output: piece })}\n\n`).join('');
  return new Response(text, { headers: EVENT_STREAM });
}

/** @param model the name that the caller gave, since the result has none */
function embeddings(result: Record<string, unknown>, model: string | null): Response {
  const { prompt_tokens = 0, total_tokens = 0 } = result;
  const list = result.embeddings as { index?: number; embedding?: unknown }[];
  return Response.json({
    object: 'list',
    data: list.map((item, position) => ({
      object: 'embedding',
      index: item.index ?? position,
      embedding: item.embedding ?? [],
    })),
    model: model ?? 'default',
    usage: { prompt_tokens, total_tokens },
  });
}

const AUDIO_TYPES: Record<string, string> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
};

/** @returns null for text that is no base64 */
function speech(audio: string, format: unknown): Response | null {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = bytesOfBase64(audio);
  } catch {
    return null;
  }
  const type = AUDIO_TYPES[String(format)] ?? 'application/octet-stream';
  return new Response(bytes, { headers: { 'content-type': type } });
}

function transcription({ text, language, duration, segments }: Record<string, unknown>): Response {
  return Response.json({ text, language, duration, segments });
}

/** Returns the whole answer as one chunk for each choice, then usage where it was asked for, then the end mark. */
function streamed(
  completion: ChatCompletionSummary,
  includeUsage: boolean,
  createdSeconds: number,
): Response {
  const { choices, usage, ...rest } = completion;
  const shared = { ...rest, object: 'chat.completion.chunk', created: createdSeconds };
  const events: unknown[] = choices.map(({ message, ...choice }) => ({
    ...shared,
    choices: [{ ...choice, delta: deltaOf(message) }],
    // Where usage is asked for, every chunk before the last carries an empty one.
    ...(includeUsage ? { usage: null } : {}),
  }));
  if (includeUsage) events.push({ ...shared, choices: [], usage });
  const text = [...events.map((event) => JSON.stringify(event)), '[DONE]']
    .map((data) => `data: ${data}\n\n`)
    .join('');
  return new Response(text, { headers: EVENT_STREAM });
}

/** Returns a message as a chunk's delta: tool calls are numbered in a chunk, but not in a message. */
function deltaOf(message: Record<string, unknown>): Record<string, unknown> {
  if (!Array.isArray(message.tool_calls)) return message;
  return { ...message, tool_calls: message.tool_calls.map((call, index) => ({ index, ...call })) };
}
