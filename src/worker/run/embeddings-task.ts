import * as z from 'zod';
import { parseValue, withMembers, writeJson } from '../../protocol/index.ts';
import { finalFailure, JobFailure } from '../failure.ts';
import { askEngineJson } from './ask-engine.ts';
import type { Attempt } from './attempt.ts';
import { modelOf } from './task-fields.ts';

/** The payload of an embeddings task; unknown fields reach the engine. */
const Payload = z.looseObject({
  input: z.union([z.string().min(1), z.array(z.unknown()).min(1)], 'expected a text or a list of them'),
});

const Answer = z.looseObject({
  data: z.array(
    z.looseObject({ index: z.number().default(0), embedding: z.union([z.array(z.number()), z.string()]) }),
  ),
  usage: z
    .looseObject({ prompt_tokens: z.number().default(0), total_tokens: z.number().default(0) })
    .optional(),
});

/** Runs `openai/embeddings`. */
export async function runEmbeddings(attempt: Attempt): Promise<Record<string, unknown>> {
  const parsed = parseValue(Payload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  const { input } = parsed.value;
  const asked = withMembers(writeJson(attempt.payload), {
    task: undefined,
    model: JSON.stringify(modelOf(attempt)),
    ...(typeof input === 'string' && { input: JSON.stringify([input]) }),
  });
  const body = await askEngineJson(attempt, '/v1/embeddings', asked);
  const answer = parseValue(Answer, body);
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
