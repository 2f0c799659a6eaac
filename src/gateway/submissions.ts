import { freeBytes } from '../durable/free-bytes.ts';
import {
  bytesOfBase64,
  EngineRequest,
  fieldsOf,
  isInferenceRoute,
  isRequestHeader,
  JobSubmission,
  openAIType,
  parseValue,
  runpodStreams,
  schemaWords,
} from '../protocol/index.ts';
import type { HeardAnswer, SubmitAnswer, SubmitJob } from '../queue/rpc.ts';
import { type Bounds, enginePriorityProblem, modelProblem, priorityProblem } from './bounds.ts';
import { HttpError, retryAfter } from './errors.ts';
import { keptResponseProblem } from './inference/kept-responses.ts';
import { isRefused, readFacts, scanBody, transferParamsProblem } from './json-scan.ts';

/** Submissions of jobs as callers write them, and what callers are told about refused ones. */

/**
 * @param bound what its submitter may ask for
 * @returns the error rather than throwing it, since in an array it concerns one job only
 */
export function readSubmission(body: unknown, bound: Bounds, idempotencyKey?: string): SubmitJob | HttpError {
  const parsed = parseValue(JobSubmission, body);
  if (!parsed.ok) return new HttpError(400, parsed.message, 'invalid_job');
  const { payload, priority = bound.usual, ...job } = parsed.value;
  const denied =
    priorityProblem(priority, bound) ??
    payloadPriorityProblem(payload, bound) ??
    modelProblem(modelsIn(payload), bound);
  if (denied) return denied;
  const isEngineRequest = job.job_type === 'engine_request';
  const problem =
    (isEngineRequest ? problemOf(payload, bound) : transferParamsProblem(payload)) ??
    (job.job_type === 'runpod' ? runpodProblem(payload) : null) ??
    (job.stream ? streamProblemOf(job.job_type, payload) : null);
  if (problem !== null) return new HttpError(400, problem, 'invalid_job');
  if (job.id === undefined && idempotencyKey !== undefined) {
    const checked = JobSubmission.shape.id.safeParse(idempotencyKey, { error: schemaWords });
    if (!checked.success)
      return new HttpError(400, `Idempotency-Key: ${checked.error.issues[0]?.message}`, 'invalid_job');
  }
  return {
    ...job,
    priority,
    id: job.id ?? idempotencyKey ?? crypto.randomUUID(),
    payload: JSON.stringify(payload),
    model: typeof payload.model === 'string' ? payload.model : undefined,
  };
}

/** What is wrong with the payload of an `engine_request`; null: nothing. */
function problemOf(payload: unknown, bound: Bounds): string | null {
  const request = parseValue(EngineRequest, payload);
  if (!request.ok) return `payload.${request.message}`;
  const { method, path, headers = {}, body, body_base64 } = request.value;
  const strange = Object.keys(headers).find((name) => !isRequestHeader(name));
  if (strange !== undefined) {
    return `payload.headers: ${strange} does not reach engines; docs/protocol.md lists those that do.`;
  }
  const asked = Object.entries(headers).find(([name]) => name.toLowerCase() === 'x-vllm-priority')?.[1];
  const denied = enginePriorityProblem(asked, bound);
  if (denied) return `payload.headers: ${denied.message}`;
  if (isInferenceRoute(method, path)) {
    const text = typeof body === 'string' ? body : '';
    return bodyProblemOf(
      path,
      body_base64 === undefined ? new TextEncoder().encode(text) : bytesOfBase64(body_base64),
      bound,
    );
  }
  return `payload.path: ${method} ${path} is no inference route. Jobs reach those alone, such as POST /v1/completions; docs/protocol.md lists them.`;
}

/**
 * Why a job may not ask this of an engine; null: it may. A payload that is no JSON object asks for nothing.
 * @param body is freed
 */
function bodyProblemOf(path: string, body: Uint8Array, bound: Bounds): string | null {
  let previousId: string | null = null;
  try {
    const { response, priority } = scanBody(body);
    previousId = response.previousId;
    const denied = enginePriorityProblem(priority, bound);
    if (denied) return `payload.body: ${denied.message}`;
  } catch (error) {
    if (isRefused(error)) return `payload.body: ${error.message}`;
  }
  freeBytes(body);
  const kept = keptResponseProblem(path, previousId);
  return kept === null ? null : `payload.path: ${kept}`;
}

/** The same of the priority that a payload asks of the engine, or the requests that RunPod's inputs name. */
export function payloadPriorityProblem(payload: object, bound: Bounds): HttpError | null {
  const { priority, input } = payload as { priority?: unknown; input?: unknown };
  const { openai_input, body, ...of } = fieldsOf(input);
  const asked = [priority, of.priority, Object(openai_input).priority, Object(body).priority];
  return asked.map((value) => enginePriorityProblem(value, bound)).find(Boolean) ?? null;
}

/** Models that a payload names, of whichever type its job is. */
export function modelsIn(payload: object): unknown[] {
  const { model, body, input } = payload as Record<string, unknown>;
  const { openai_input, body: inner, model: own } = fieldsOf(input);
  return [model, modelInText(body), own, fieldsOf(openai_input).model, fieldsOf(inner).model];
}

/** A payload that is no JSON object names none. */
function modelInText(body: unknown): string | null {
  try {
    return typeof body === 'string' ? readFacts(new TextEncoder().encode(body)).model : null;
  } catch {
    return null;
  }
}

/** The same of the requests that RunPod's inputs name. */
export function runpodProblem({ input }: Record<string, unknown>): string | null {
  const { openai_route, openai_input, route, body } = fieldsOf(input);
  const kept =
    keptResponseProblem(openai_route, Object(openai_input).previous_response_id) ??
    keptResponseProblem(route, Object(body).previous_response_id);
  return kept === null ? null : `input: ${kept}`;
}

/** Why the answer of a job cannot be read as a stream; null: it can. */
function streamProblemOf(jobType: string, { body, input }: Record<string, unknown>): string | null {
  if (jobType === 'runpod')
    return runpodStreams(Object(input)) ? null : 'stream: the input asks for no stream.';
  if (jobType !== 'engine_request') return 'stream: only jobs of the types engine_request and runpod stream.';
  const wanted =
    'stream: the engine must be asked for a stream: payload.body needs to be JSON with "stream": true.';
  try {
    return typeof body === 'string' && readFacts(new TextEncoder().encode(body)).stream ? null : wanted;
  } catch {
    return wanted;
  }
}

/**
 * Submits those that could be read, in one commit.
 * @param read in order, each a job or why it is none
 * @returns what became of each, in order
 */
export async function submitAll(
  read: readonly (SubmitJob | HttpError)[],
  submit: (jobs: SubmitJob[]) => Promise<SubmitAnswer[]>,
): Promise<({ job: object } | { error: object })[]> {
  const jobs = read.filter((job): job is SubmitJob => !(job instanceof HttpError));
  const answers = (jobs.length > 0 ? await submit(jobs) : []).values();
  return read.map((job) => {
    if (job instanceof HttpError) return { error: errorOf(job) };
    const answer = answers.next().value;
    if (!answer?.ok) return { error: errorOf(rejection(answer)) };
    const { result_file: _, ...told } = answer.job;
    return { job: told };
  });
}

const REJECTION_STATUS = {
  conflict: 409,
  no_pool: 400,
  unknown_pool: 404,
  queue_full: 429,
  invalid_webhook: 400,
} as const;

/** A submission that the queue did not take. */
export function rejection(answer: HeardAnswer | undefined): HttpError {
  if (!answer || answer.ok) return new HttpError(500, 'The queue did not answer for this job.');
  const headers = answer.reason === 'queue_full' ? retryAfter(answer.retry_after_seconds) : {};
  return new HttpError(REJECTION_STATUS[answer.reason], answer.message, answer.reason, headers);
}

/** An error as the entry of one job among several. */
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
