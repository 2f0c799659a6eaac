import {
  EngineRequest,
  fieldsOf,
  isInferenceRoute,
  isRequestHeader,
  JobSubmission,
  JsonFault,
  matchesPattern,
  newJobId,
  openAIType,
  parseValue,
  runpodStreams,
  schemaWords,
  writeJson,
} from '../protocol/index.ts';
import { bytesOf, type HeardAnswer, type SubmitAnswer } from '../queue/rpc.ts';
import { RequestFault } from '../request-facts/fault.ts';
import { type JobFacts, jobFacts } from '../request-facts/job-facts.ts';
import { parseKeeping } from './body.ts';
import { HttpError, retryAfter } from './errors.ts';
import { keptResponseProblem } from './inference/kept-responses.ts';
import { toldJob } from './objects/job-files.ts';
import { KEPT_FACTS, type ReadJob } from './objects/read-job.ts';
import {
  adapterProblem,
  enginePriorityProblem,
  jobRouteProblem,
  modelProblem,
  type Permissions,
  priorityProblem,
} from './permissions.ts';

/** This file reads submissions of jobs as callers write them, and makes the errors for refused ones. */

/** Parses a job, or an array of jobs, and keeps their payloads as they were written. @throws HttpError 400 */
export function parseJobs(bytes: Uint8Array): unknown {
  return parseKeeping(bytes, ['payload']);
}

/**
 * Reads one submission.
 * @param permissions what its submitter may ask for
 * @returns the error rather than throwing it, since in an array it concerns one job only
 */
export function readSubmission(
  body: unknown,
  permissions: Permissions,
  idempotencyKey?: string,
): ReadJob | HttpError {
  const parsed = parseValue(JobSubmission, body);
  if (!parsed.ok) return new HttpError(400, parsed.message, 'invalid_job');
  const { payload, priority = permissions.usual, ...job } = parsed.value;
  const shape = job.job_type === 'engine_request' ? engineRequestProblem(payload) : null;
  if (shape !== null) return new HttpError(400, shape, 'invalid_job');
  const text = writeJson(fieldsOf(body).payload);
  const facts = readFacts(job.job_type, text);
  if (facts instanceof HttpError) return facts;
  const denied = priorityProblem(priority, permissions) ?? factsProblem(facts, permissions);
  if (denied) return denied;
  const problem = job.stream ? streamProblemOf(job.job_type, payload, facts) : null;
  if (problem !== null) return new HttpError(400, problem, 'invalid_job');
  if (job.id === undefined && idempotencyKey !== undefined) {
    const checked = JobSubmission.shape.id.safeParse(idempotencyKey, { error: schemaWords });
    if (!checked.success)
      return new HttpError(400, `Idempotency-Key: ${checked.error.issues[0]?.message}`, 'invalid_job');
  }
  return {
    ...job,
    priority,
    id: job.id ?? idempotencyKey ?? newJobId(),
    payload: text,
    model: facts.model ?? undefined,
    ...(!mayNamePool(job.config_id, permissions) && { model_only: true }),
    ...(text.length <= KEPT_FACTS && { facts }),
  };
}

/**
 * Reads the facts of the body that the engine will be sent.
 * @param payload JSON of an object
 * @returns the facts, or the error where no engine is sent the body
 */
export function readFacts(jobType: string, payload: string): JobFacts | HttpError {
  const bytes = bytesOf(payload);
  try {
    return jobFacts(jobType, bytes);
  } catch (error) {
    if (error instanceof RequestFault || error instanceof JsonFault)
      return new HttpError(400, error.message, 'invalid_job');
    throw error;
  }
}

/** Returns the error that forbids the submitter to ask an engine for a job's body, or null. */
export function factsProblem({ request, body, model }: JobFacts, permissions: Permissions): HttpError | null {
  const kept = keptResponseProblem(request.path, body.previousId);
  if (kept !== null) return new HttpError(400, `payload.path: ${kept}`, 'invalid_job');
  return (
    [...request.priorities, body.priority]
      .map((asked) => enginePriorityProblem(asked, permissions))
      .find(Boolean) ??
    modelProblem([model], permissions) ??
    adapterProblem(body, permissions) ??
    jobRouteProblem(request.path, permissions)
  );
}

/**
 * Returns whether the token may name the pool, whatever its workers serve: the pool's name is one of those that the
 * token is for.
 */
function mayNamePool(pool: string | undefined, { models }: Permissions): boolean {
  return pool === undefined || models === null || models.some((pattern) => matchesPattern(pattern, pool));
}

/** Returns what is wrong with the payload of an `engine_request` apart from its body, or null. */
function engineRequestProblem(payload: unknown): string | null {
  const request = parseValue(EngineRequest, payload);
  if (!request.ok) return `payload.${request.message}`;
  const { method, path, headers = {} } = request.value;
  const strange = Object.keys(headers).find((name) => !isRequestHeader(name));
  if (strange !== undefined) {
    return `payload.headers: ${strange} does not reach engines; docs/protocol.md lists those that do.`;
  }
  if (isInferenceRoute(method, path)) return null;
  return `payload.path: ${method} ${path} is no inference route. Jobs reach those alone, such as POST /v1/completions; docs/protocol.md lists them.`;
}

/** Returns why the answer of a job cannot be read as a stream, or null where it can. */
function streamProblemOf(
  jobType: string,
  { input }: Record<string, unknown>,
  { body }: JobFacts,
): string | null {
  if (jobType === 'runpod')
    return runpodStreams(Object(input)) ? null : 'stream: the input asks for no stream.';
  if (jobType !== 'engine_request') return 'stream: only jobs of the types engine_request and runpod stream.';
  return body.kind === 'json' && body.stream
    ? null
    : 'stream: the engine must be asked for a stream: payload.body needs to be JSON with "stream": true.';
}

/**
 * Submits the jobs that could be read, in one commit.
 * @param read a job or the error for it, in order
 * @returns what became of each, in order
 */
export async function submitAll(
  read: readonly (ReadJob | HttpError)[],
  submit: (jobs: ReadJob[]) => Promise<SubmitAnswer[]>,
): Promise<({ job: object } | { error: object })[]> {
  const jobs = read.filter((job): job is ReadJob => !(job instanceof HttpError));
  const answers = (jobs.length > 0 ? await submit(jobs) : []).values();
  return read.map((job) => {
    if (job instanceof HttpError) return { error: errorOf(job) };
    const answer = answers.next().value;
    if (!answer?.ok) return { error: errorOf(rejection(answer)) };
    return { job: toldJob(answer.job) };
  });
}

const REJECTION_STATUS = {
  conflict: 409,
  no_pool: 400,
  unknown_pool: 404,
  queue_full: 429,
  invalid_webhook: 400,
} as const;

/** Returns the error for a submission that the queue did not take. */
export function rejection(answer: HeardAnswer | undefined): HttpError {
  if (!answer || answer.ok) return new HttpError(500, 'The queue did not answer for this job.');
  const headers = answer.reason === 'queue_full' ? retryAfter(answer.retry_after_seconds) : {};
  return new HttpError(REJECTION_STATUS[answer.reason], answer.message, answer.reason, headers);
}

/** Returns an error as the entry of one job among several. */
export function errorOf(error: HttpError) {
  const seconds = error.headers['retry-after'];
  return {
    status: error.status,
    message: error.message,
    type: openAIType(error.status),
    param: null,
    code: error.code,
    ...(seconds === undefined ? {} : { retry_after_seconds: Number(seconds) }),
  };
}
