import * as z from 'zod';
import { limits, parseValue, RunpodPayload, runpodStreams } from '../../protocol/index.ts';
import type { SubmitJob } from '../../queue/rpc.ts';
import { type Bounds, modelProblem } from '../bounds.ts';
import { HttpError } from '../errors.ts';
import { modelsIn, payloadPriorityProblem, runpodProblem } from '../submissions.ts';

/** Jobs with `lowPriority` run after all others. */
const LOW_PRIORITY = -1;

/** Body of `run` and `runsync`. */
export const RunpodSubmission = RunpodPayload.extend({
  webhook: z.string('expected a URL').max(2048).nullish(),
  s3Config: z
    .unknown()
    .refine((value) => !value, 'is not supported: answers of an engine are part of the output')
    .optional(),
});

/**
 * A body of `run` or `runsync` as a stored job.
 * @param endpoint a pool, a model, or "default"
 * @param bound what its submitter may ask for
 * @throws HttpError 400 that names the field, 403 for a priority that is not the submitter's to ask for
 */
export function readRunpodSubmission(body: unknown, id: string, endpoint: string, bound: Bounds): SubmitJob {
  const parsed = parseValue(RunpodSubmission, body);
  if (!parsed.ok) throw new HttpError(400, parsed.message, 'invalid_job');
  const { input, policy, webhook } = parsed.value;
  const problem = runpodProblem({ input });
  if (problem !== null) throw new HttpError(400, problem, 'invalid_job');
  const named = endpoint === 'default' ? [] : [endpoint];
  const denied =
    payloadPriorityProblem({ input }, bound) ?? modelProblem([...named, ...modelsIn({ input })], bound);
  if (denied) throw denied;
  return {
    id,
    job_type: 'runpod',
    payload: JSON.stringify({ input, ...(policy ? { policy } : {}) }),
    model: endpoint,
    priority: policy?.lowPriority ? Math.min(LOW_PRIORITY, bound.usual) : bound.usual,
    max_attempts: limits.MAX_ATTEMPTS,
    ...(policy?.ttl ? { deadline_seconds: policy.ttl / 1000 } : {}),
    ...(webhook ? { webhook } : {}),
    stream: runpodStreams(input),
  };
}
