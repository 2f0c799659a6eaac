import * as z from 'zod';
import {
  BASE_TASKS,
  type ChatCompletionSummary,
  ChatPayload,
  isFinish,
  parseValue,
  withMembers,
  writeJson,
} from '../../protocol/index.ts';
import { finalFailure, JobFailure } from '../failure.ts';
import { assembledAnswer } from './assembled.ts';
import type { Attempt } from './attempt.ts';
import { gaveUp } from './engine-failures.ts';
import {
  runImageToVideo,
  runSpeech,
  runSpeechToVideo,
  runTextToVideo,
  runTranscription,
} from './media-tasks.ts';
import { changed, modelOf } from './request-body.ts';
import { generatedTokens } from './usage.ts';
import { askEngineJson } from './whole-answer.ts';

/** The payload of an embeddings task; unknown fields reach the engine. */
const EmbeddingsPayload = z.looseObject({
  input: z.union([z.string().min(1), z.array(z.unknown()).min(1)], 'expected a text or a list of them'),
});

const EmbeddingsAnswer = z.looseObject({
  data: z.array(
    z.looseObject({ index: z.number().default(0), embedding: z.union([z.array(z.number()), z.string()]) }),
  ),
  usage: z
    .looseObject({ prompt_tokens: z.number().default(0), total_tokens: z.number().default(0) })
    .optional(),
});

/** Runs `openai/embeddings`. */
async function runEmbeddings(attempt: Attempt): Promise<Record<string, unknown>> {
  const parsed = parseValue(EmbeddingsPayload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  const { input } = parsed.value;
  const asked = withMembers(writeJson(attempt.payload), {
    task: undefined,
    model: JSON.stringify(modelOf(attempt)),
    ...(typeof input === 'string' && { input: JSON.stringify([input]) }),
  });
  const body = await askEngineJson(attempt, '/v1/embeddings', asked);
  const answer = parseValue(EmbeddingsAnswer, body);
  if (!answer.ok) {
    const message = 'the engine answered 200 with something that is no list of embeddings';
    throw new JobFailure({ message, code: 'engine_error', retryable: true });
  }
  const { data, usage } = answer.value;
  return {
    embeddings: data.map(({ index, embedding }) => ({ index, embedding })),
    prompt_tokens: usage?.prompt_tokens ?? 0,
    total_tokens: usage?.total_tokens ?? 0,
  };
}

const PATH = '/v1/chat/completions';

/** Runs a chat completion of the base protocol, with its defaults and its form of answers. */
async function runChat(attempt: Attempt): Promise<{ completion: ChatCompletionSummary }> {
  const parsed = parseValue(ChatPayload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  const model = attempt.modelFor(parsed.value.model);
  const asked = requestBody(attempt.payload, parsed.value, model);
  const request = { method: 'POST', path: PATH, body: asked } as const;
  const assembled = await assembledAnswer(attempt, { ...request, content_type: 'application/json' });
  return { completion: summaryOf(assembled ?? (await inOnePiece(attempt, asked)), model) };
}

async function inOnePiece(attempt: Attempt, asked: string): Promise<unknown> {
  const body = await askEngineJson(attempt, PATH, asked);
  attempt.generated(generatedTokens(body));
  return body;
}

/**
 * Returns the payload with the base protocol's defaults and without fields that are not the engine's; the rest stays as
 * it was written.
 */
function requestBody(given: object, payload: ChatPayload, model: string): string {
  const { stop } = payload;
  return withMembers(writeJson(given), {
    ...changed(given, payload),
    task: undefined,
    stream_options: undefined,
    ...(stop === null && { stop: undefined }),
    model: JSON.stringify(model),
    stream: 'false',
  });
}

function summaryOf(body: unknown, askedModel: string): ChatCompletionSummary {
  const { id, model, choices, usage } = (body ?? {}) as Partial<ChatCompletionSummary>;
  if (!Array.isArray(choices)) {
    throw new JobFailure({
      message: 'the engine answered 200 with something that is no chat completion',
      code: 'engine_error',
      retryable: true,
      body,
    });
  }
  if (!choices.every(({ finish_reason }) => isFinish(finish_reason))) throw gaveUp();
  return {
    id: id ?? '',
    model: model ?? askedModel,
    choices,
    usage: {
      prompt_tokens: usage?.prompt_tokens ?? 0,
      completion_tokens: usage?.completion_tokens ?? 0,
      total_tokens: usage?.total_tokens ?? 0,
    },
  };
}

type RunTask = (attempt: Attempt) => Promise<object>;

/** The runners that a payload's `task` selects, in the base protocol. */
const TASKS = new Map<string, RunTask>([
  [BASE_TASKS.chat, runChat],
  [BASE_TASKS.embeddings, runEmbeddings],
  [BASE_TASKS.speech, runSpeech],
  [BASE_TASKS.transcription, runTranscription],
  [BASE_TASKS.textToVideo, runTextToVideo],
  [BASE_TASKS.imageToVideo, runImageToVideo],
  [BASE_TASKS.speechToVideo, runSpeechToVideo],
]);

/**
 * The job types that the base README names; the payload's `task` decides what they run. A task's own name may be the
 * job type too.
 */
const BASE_JOB_TYPES = ['chat_completion', 'llm_inference'];

/** Returns the task that a job of the base protocol asks for; `""` counts as none. Null: it is no such job. */
export function baseTaskOf(jobType: string | undefined, payload: object): string | null {
  const isTask = jobType !== undefined && TASKS.has(jobType);
  if (jobType !== undefined && !isTask && !BASE_JOB_TYPES.includes(jobType)) return null;
  const task = 'task' in payload ? payload.task : undefined;
  if (task) return String(task);
  return isTask ? jobType : BASE_TASKS.chat;
}

/** Returns the runner of a task; undefined: no such task is known. */
export function runnerOf(task: string): RunTask | undefined {
  return TASKS.get(task);
}

export const KNOWN_TASKS = [...TASKS.keys()];

/**
 * Runs a task and returns its result in the base protocol's form: with config_id and task if the queue named no type,
 * as the deployed worker does.
 */
export async function runBaseTask(
  attempt: Attempt,
  task: string,
  run: RunTask,
): Promise<Record<string, unknown>> {
  const fields = await run(attempt);
  const { jobType, configId, payload } = attempt;
  const type = jobType ?? (task === BASE_TASKS.chat ? 'chat_completion' : undefined);
  return {
    status: 'success',
    ...(jobType === undefined && configId !== undefined ? { config_id: configId } : {}),
    ...(jobType === undefined || 'task' in payload ? { task } : {}),
    ...(type === undefined ? {} : { job_type: type }),
    ...fields,
    processed_at: attempt.timestamp(),
  };
}
