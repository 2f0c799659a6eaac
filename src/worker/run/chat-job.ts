import { type ChatCompletionSummary, ChatPayload, parseValue } from '../../protocol/index.ts';
import { engineDied, finalFailure, JobFailure } from '../failure.ts';
import { askEngineJson } from './ask-engine.ts';
import { assembledAnswer } from './assembled.ts';
import type { Attempt } from './attempt.ts';
import { UNFINISHED_REASONS } from './completion-watch.ts';
import { generatedTokens } from './tokens.ts';

const PATH = '/v1/chat/completions';

/** Runs a chat completion of the base protocol, with its defaults and its form of an answer. */
export async function runChat(attempt: Attempt): Promise<{ completion: ChatCompletionSummary }> {
  const parsed = parseValue(ChatPayload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  const model = attempt.modelFor(parsed.value.model);
  const fields = requestBody(parsed.value, model);
  const request = { method: 'POST', path: PATH, body: JSON.stringify(fields) } as const;
  const assembled = await assembledAnswer(attempt, { ...request, content_type: 'application/json' });
  return { completion: summaryOf(assembled ?? (await inOnePiece(attempt, fields)), model) };
}

async function inOnePiece(attempt: Attempt, fields: object): Promise<unknown> {
  const body = await askEngineJson(attempt, PATH, fields);
  attempt.generated(generatedTokens(body));
  return body;
}

function requestBody(payload: ChatPayload, model: string): Record<string, unknown> {
  const { task: _task, stop, stream_options: _options, ...rest } = payload;
  return { ...rest, model, ...(stop === null || stop === undefined ? {} : { stop }), stream: false };
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
  const unfinished = choices.find(
    ({ finish_reason }) => !finish_reason || UNFINISHED_REASONS.includes(finish_reason),
  );
  if (unfinished) throw engineDied('the engine ended the generation before it was finished');
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
