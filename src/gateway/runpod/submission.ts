import * as z from 'zod';
import {
  bounds,
  fieldsOf,
  parseValue,
  RunpodPayload,
  runpodStreams,
  writeJson,
} from '../../protocol/index.ts';
import type { SubmitJob } from '../../queue/rpc.ts';
import { modelProblem, type Permissions } from '../auth/permissions.ts';
import { HttpError } from '../errors.ts';
import { factsProblem, readFacts } from '../jobs/submissions.ts';

/** The priority of jobs with `lowPriority`, which run after all others. */
const LOW_PRIORITY = -1;

/** The body of `run` and `runsync`. */
export const RunpodSubmission = RunpodPayload.extend({
  webhook: z.string('expected a URL').max(2048).nullish(),
  s3Config: z
    .unknown()
    .refine((value) => !value, 'is not supported: answers of an engine are part of the output')
    .optional(),
});

/**
 * Reads the body of `run` or `runsync` as a stored job.
 * @param endpoint a pool, a model, or "default"
 * @param permissions what the submitter may ask for
 * @throws HttpError 400 that names the field, 403 for a priority that the submitter may not ask for
 */
export function readRunpodSubmission(
  body: unknown,
  id: string,
  endpoint: string,
  permissions: Permissions,
): SubmitJob {
  const parsed = parseValue(RunpodSubmission, body);
  if (!parsed.ok) throw new HttpError(400, parsed.message, 'invalid_job');
  const { input, policy, webhook } = parsed.value;
  const asGiven = { input: fieldsOf(body).input, ...(policy ? { policy } : {}) };
  const facts = readFacts('runpod', writeJson(asGiven));
  if (facts instanceof HttpError) throw facts;
  const named = endpoint === 'default' ? null : endpoint;
  const model = facts.model ?? named;
  const denied =
    factsProblem({ ...facts, model }, permissions) ??
    (named === null ? null : modelProblem([named], permissions));
  if (denied) throw denied;
  // Where the endpoint is a model, the worker puts it into a body that names none.
  const payload = writeJson(facts.model === model ? asGiven : { ...asGiven, model });
  return {
    id,
    job_type: 'runpod',
    payload,
    endpoint,
    ...(model !== null && { model }),
    priority: policy?.lowPriority ? Math.min(LOW_PRIORITY, permissions.usual) : permissions.usual,
    max_attempts: bounds.MAX_ATTEMPTS,
    ...(policy?.ttl ? { deadline_seconds: policy.ttl / 1000 } : {}),
    ...(webhook ? { webhook } : {}),
    stream: runpodStreams(input),
  };
}
