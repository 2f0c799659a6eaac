import {
  type ChatCompletionSummary,
  ChatPayload,
  type ChatResult,
  parseValue,
} from '../../protocol/index.ts';
import { engineDied, engineRefusal, finalFailure, JobFailure } from '../failure.ts';
import { readWhole } from '../files/transfer.ts';
import { type Attempt, parseBody } from './attempt.ts';
import { UNFINISHED_REASONS } from './completion-watch.ts';
import { generatedTokens } from './tokens.ts';

const PATH = '/v1/chat/completions';

/** Runs a chat completion of the base protocol, with its defaults and its form of a result. */
export async function runChatJob(attempt: Attempt): Promise<ChatResult> {
  const parsed = parseValue(ChatPayload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  attempt.requested();
  const answer = await attempt.engine.request({
    method: 'POST',
    path: PATH,
    body: JSON.stringify(requestBody(attempt, parsed.value)),
    requestId: attempt.jobId,
    signal: attempt.signal,
  });
  const body = parseBody((await readWhole(answer.body)).toString());
  if (answer.status >= 400) throw engineRefusal(answer.status, body);
  attempt.generated(generatedTokens(body));
  const { task, ...rest } = parsed.value;
  return {
    status: 'success',
    job_type: attempt.jobType,
    ...(task === undefined ? {} : { task }),
    processed_at: attempt.timestamp(),
    completion: summaryOf(body, rest.model),
  };
}

function requestBody(attempt: Attempt, payload: ChatPayload): Record<string, unknown> {
  const { task: _task, stop, stream_options: _options, model, ...rest } = payload;
  const isAlias = attempt.modelAliases.has(model);
  return {
    ...rest,
    model: isAlias ? (attempt.servedModel ?? model) : model,
    ...(stop === null || stop === undefined ? {} : { stop }),
    stream: false,
  };
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
