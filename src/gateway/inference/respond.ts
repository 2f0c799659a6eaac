import type { Outcome } from '../../asking/attempt-loop.ts';
import {
  type ApiError,
  bytesOfBase64,
  type ChatCompletionSummary,
  type EngineRequestResult,
  EVENT_STREAM,
  type Failure,
  fieldsOf,
  messageOf,
  openAIError,
  parseEngineError,
  readWholeAnswer,
  runpodOutput,
  writeJson,
  writeJsonLine,
} from '../../protocol/index.ts';
import type { RequestFacts } from '../../request-facts/body-facts.ts';
import { type ErrorOf, engineResponse, errorResponse, HttpError, retryAfter } from '../errors.ts';

/** A request's facts that its response needs beside its outcome. */
export interface AnsweredRequest {
  jobId: string;
  facts: RequestFacts;
  errorOf: ErrorOf;
}

/** Puts a request's outcome into HTTP. */
export function respond(outcome: Outcome, asked: AnsweredRequest, nowMs: number): Response {
  // The answer stays as the relay made it, with the headers that it was told to add: another Response costs as much as
  // a chunk.
  if (outcome.kind === 'answer') return outcome.answer;
  const response = responseOf(outcome, asked, nowMs);
  response.headers.set('x-job-id', asked.jobId);
  const more = outcome.kind === 'result' || outcome.kind === 'refused' ? outcome.headers : undefined;
  for (const [name, value] of Object.entries(more ?? {})) response.headers.set(name, value);
  return response;
}

function responseOf(
  outcome: Exclude<Outcome, { kind: 'answer' }>,
  { facts, errorOf }: AnsweredRequest,
  nowMs: number,
): Response {
  switch (outcome.kind) {
    case 'result': {
      if (isGivenUp(outcome.result)) {
        const message = 'The engine ended the generation before it was finished.';
        return errorResponse(new HttpError(502, message, 'engine_died'), errorOf);
      }
      const answer = answerFromResult(outcome.result, facts, Math.floor(nowMs / 1000));
      if (answer) return answer;
      const message = `Worker ${outcome.worker_id} finished the job with a result that is no answer to this route.`;
      return errorResponse(new HttpError(502, message, 'worker_error'), errorOf);
    }
    case 'failed':
      return failureResponse(outcome.failure, outcome.attempts, errorOf);
    case 'refused':
      return rejected(outcome, errorOf);
    case 'gone':
      // The caller has left and does not read this; proxies log such requests as 499.
      return errorResponse(new HttpError(499, 'The caller hung up.', 'caller_gone'), errorOf);
  }
}

const STATUS_OF_CODE: Record<string, number> = {
  invalid_request: 400,
  engine_refused: 400,
  unsupported_job_type: 400,
  unsupported_by_worker: 501,
  cancelled: 409,
  too_large: 413,
  engine_overloaded: 503,
  adapter_failed: 503,
  engine_unreachable: 503,
  deadline: 504,
};

/**
 * Returns the response to a request that failed; where the engine reported the failure, in the engine's words.
 * @param attempts the number of attempts that were made
 */
export function failureResponse(failure: Failure, attempts: number, errorOf?: ErrorOf): Response {
  if (failure.http_status && failure.body !== undefined) {
    return engineResponse(failure.http_status, JSON.stringify(failure.body), 'application/json');
  }
  const said = parseEngineError(failure.message);
  if (said) return errorResponse(new HttpError(said.status, said.message, failure.code), errorOf);
  // A job that workers only released until the caller's wait ended is not at fault: the workers are busy or leaving.
  const status =
    errorStatus(failure.http_status) ?? STATUS_OF_CODE[failure.code] ?? (attempts === 0 ? 503 : 502);
  const tried = attempts > 1 ? ` (${attempts} attempts were made)` : '';
  const headers = status === 503 ? retryAfter(5) : {};
  return errorResponse(new HttpError(status, `${failure.message}${tried}`, failure.code, headers), errorOf);
}

/** Returns an engine's status where it can go to a caller as that of a failure. */
function errorStatus(status: number | undefined): number | undefined {
  return status !== undefined && status >= 400 && status <= 599 ? status : undefined;
}

const REJECTIONS = {
  unknown_model: { status: 404, code: 'model_not_found' },
  ambiguous_model: { status: 400, code: 'model_required' },
  no_worker: { status: 503, code: 'no_worker' },
  no_slot: { status: 503, code: 'no_slot' },
  queue_full: { status: 429, code: 'queue_full' },
  over_limit: { status: 429, code: 'rate_limit_exceeded' },
  deadline: { status: 503, code: 'deadline' },
  cancelled: { status: 409, code: 'cancelled' },
} as const;

function rejected(refusal: Extract<Outcome, { kind: 'refused' }>, errorOf: ErrorOf): Response {
  const { status, code } = REJECTIONS[refusal.reason];
  const headers = status === 503 || status === 429 ? retryAfter(refusal.retry_after_seconds) : {};
  return errorResponse(new HttpError(status, refusal.message, code, headers), errorOf);
}

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
function isGivenUp(result: Record<string, unknown>): boolean {
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
