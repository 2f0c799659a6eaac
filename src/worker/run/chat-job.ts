import {
  type ChatCompletionSummary,
  ChatPayload,
  isFinish,
  parseValue,
  withMembers,
  writeJson,
} from '../../protocol/index.ts';
import { finalFailure, JobFailure } from '../failure.ts';
import { askEngineJson } from './ask-engine.ts';
import { assembledAnswer } from './assembled.ts';
import type { Attempt } from './attempt.ts';
import { gaveUp } from './engine-failures.ts';
import { changed } from './task-fields.ts';
import { generatedTokens } from './tokens.ts';

const PATH = '/v1/chat/completions';

/** Runs a chat completion of the base protocol, with its defaults and its form of an answer. */
export async function runChat(attempt: Attempt): Promise<{ completion: ChatCompletionSummary }> {
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
