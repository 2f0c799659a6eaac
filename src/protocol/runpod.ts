import * as z from 'zod';
import { fieldsOf, jsonOrText } from './fields.ts';

/**
 * Jobs in the form of RunPod's serverless endpoints, docs/runpod.md. Sources: the job inputs of worker-vllm 0.2 and
 * 2.x, and RunPod's operation reference.
 */

const DAY_MS = 86_400_000;

const milliseconds = (least: number) => {
  const most = 7 * DAY_MS;
  const message = `expected milliseconds from ${least} to ${most}`;
  return z.number(message).min(least, message).max(most, message);
};

/** RunPod's limits of a job, in milliseconds as there. */
const RunpodPolicy = z.object({
  /** The time limit of one attempt, from when the worker has it. */
  executionTimeout: milliseconds(5000).nullish(),
  /** The time from the submission to the end, waiting included. */
  ttl: milliseconds(10_000).nullish(),
  lowPriority: z.boolean('expected true or false').nullish(),
});

/** The payload of a `runpod` job: what RunPod hands to a handler. worker/run/runpod-input.ts lists the inputs. */
export const RunpodPayload = z.looseObject({
  input: z.record(z.string(), z.unknown(), 'expected an object'),
  /** The model for a body that names none. */
  model: z.string().nullish(),
  policy: RunpodPolicy.nullish(),
});
export type RunpodPayload = z.infer<typeof RunpodPayload>;
export type RunpodInput = RunpodPayload['input'];

/** The result of a `runpod` job. */
export interface RunpodResult {
  [field: string]: unknown;
  status: 'success';
  job_type: 'runpod';
  processed_at: string;
  /** Everything the handler yielded, in order: what `/stream/{id}` gives one by one. */
  output: unknown[];
}

/** Returns whether an input asks for its outputs as they come. */
export function runpodStreams(input: RunpodInput): boolean {
  const { openai_route, openai_input, route, body, stream } = input;
  if (openai_input) return asksForStream(openai_input);
  if (openai_route) return false;
  return route ? asksForStream(body) : Boolean(stream);
}

/** Returns whether a body, which may be a text of JSON, asks for a stream. */
function asksForStream(body: unknown): boolean {
  return fieldsOf(typeof body === 'string' ? jsonOrText(body) : body).stream === true;
}
