import {
  BASE_TASKS,
  bytesOfBase64,
  CHAT_MAX_TOKENS,
  checkUtf8,
  ENGINE_ROUTES,
  jsonFields,
  parseJsonBytes,
  withMemberAt,
  withMembers,
} from '../protocol/index.ts';
import { type BodyFacts, bodyFacts } from './body-facts.ts';
import { RequestFault, readingJson } from './fault.ts';
import { encoded, isNull, type JobRequest, textIn } from './job-request.ts';
import { type Lengths, lengthsOf } from './lengths.ts';
import { runpodRequest } from './runpod-request.ts';

/** The facts that were read of a job. */
export interface JobFacts {
  request: JobRequest;
  body: BodyFacts;
  /** The model that the job asks for; null: whatever the engine serves. */
  model: string | null;
  lengths: Lengths;
}

/** The routes of the base protocol's tasks. */
const TASK_PATHS = new Map(
  ENGINE_ROUTES.flatMap(({ path, task, otherTasks }) =>
    [...otherTasks, ...(task === null ? [] : [task])].map((one) => [one, path] as const),
  ),
);
const CHAT_TYPES = ['chat_completion', 'llm_inference'];

/**
 * Reads the facts of a job.
 * @param payload JSON of an object
 * @throws RequestFault for a job that is sent to no engine
 */
export function jobFacts(jobType: string, payload: Uint8Array): JobFacts {
  const request = requestOf(jobType, payload);
  const body = factsOf(request);
  const { otherwiseModel } = request;
  if (jobType === 'engine_request') rejectOtherModel(otherwiseModel, body);
  const lengths = readingJson(() => lengthsOf(request.path ?? '', body.jsonBytes, body.fields));
  return {
    request,
    body,
    model: body.model ?? otherwiseModel,
    lengths: isUnbounded(body) ? { ...lengths, most: request.otherwiseTokens } : lengths,
  };
}

/**
 * Refuses a model beside the body that the body does not name, since the worker does not put it in.
 * @throws RequestFault
 */
function rejectOtherModel(besides: string | null, { kind, model }: BodyFacts): void {
  if (besides === null || besides === model || (model === null && kind !== 'json')) return;
  const named = model === null ? 'none' : JSON.stringify(model);
  throw new RequestFault(
    'invalid_model',
    `payload.model: names ${JSON.stringify(besides)}, and the body ${named}, which is what the engine reads: name it there.`,
  );
}

/** Says whether the body names no bound of its answer, not even one that cannot be read. */
function isUnbounded({ fields: { max_tokens, max_completion_tokens } }: BodyFacts): boolean {
  return [max_tokens, max_completion_tokens].every((json) => json === undefined || isNull(json));
}

function requestOf(jobType: string, payload: Uint8Array): JobRequest {
  if (jobType === 'engine_request') return engineRequest(payload);
  if (jobType === 'runpod') return runpodRequest(payload);
  return taskRequest(jobType, payload);
}

function engineRequest(payload: Uint8Array): JobRequest {
  const fields = readingJson(() =>
    jsonFields(payload, ['path', 'body', 'body_base64', 'content_type', 'headers', 'model', 'continues']),
  );
  const [path, text, base64] = [textIn(fields.path), textIn(fields.body), textIn(fields.body_base64)];
  if (text !== null && base64 !== null)
    throw new RequestFault('two_bodies', 'payload: expected body or body_base64, not both.');
  if (fields.continues !== undefined)
    throw new RequestFault('continues_refused', 'payload.continues: is said by queues alone: leave it out.');
  const headers = Object(
    fields.headers === undefined ? null : readingJson(() => parseJsonBytes(fields.headers!)),
  );
  return {
    path,
    body: base64 === null ? encoded(text ?? '') : decodedBase64(base64),
    contentType: textIn(fields.content_type),
    place: [base64 === null ? 'body' : 'body_base64'],
    isText: true,
    otherwiseModel: textIn(fields.model) || null,
    otherwiseTokens: null,
    // A header's name in two cases makes two headers, of which the worker sends the last.
    priorities: Object.entries(headers).flatMap(([name, value]) =>
      name.toLowerCase() === 'x-vllm-priority' ? [value] : [],
    ),
  };
}

function decodedBase64(base64: string): Uint8Array {
  try {
    return bytesOfBase64(base64);
  } catch {
    throw new RequestFault('invalid_base64', 'payload.body_base64: expected base64.');
  }
}

/** Returns the request of a task, whose body is the payload; `task` stands beside its fields. */
function taskRequest(jobType: string, payload: Uint8Array): JobRequest {
  const { task: given } = readingJson(() => jsonFields(payload, ['task']));
  const task = textIn(given) || (CHAT_TYPES.includes(jobType) ? BASE_TASKS.chat : jobType);
  const isChat = task === BASE_TASKS.chat;
  return {
    path: TASK_PATHS.get(task) ?? null,
    body: payload,
    contentType: null,
    place: [],
    isText: false,
    otherwiseModel: null,
    otherwiseTokens: isChat ? CHAT_MAX_TOKENS : null,
    priorities: [],
  };
}

function factsOf({ place, body, contentType }: JobRequest): BodyFacts {
  try {
    const facts = bodyFacts(body, contentType);
    // A job is text from end to end, and an engine that is sent other bytes may read any character in their place.
    if (facts.kind === 'json') readingJson(() => checkUtf8(body));
    return facts;
  } catch (error) {
    if (!(error instanceof RequestFault) || place.length === 0) throw error;
    throw new RequestFault(error.code, `payload.${place.join('.')}: ${error.message}`);
  }
}

/**
 * Returns the payload with another name in place of the model that the job asks for.
 * @param payload JSON of an object
 */
export function withModel(payload: string, { request, body }: JobFacts, model: string): string {
  const name = JSON.stringify(model);
  const named = request.otherwiseModel === null ? payload : withMembers(payload, { model: name });
  if (body.model === null || body.kind !== 'json') return named;
  const [first, ...rest] = request.place;
  if (first === undefined) return withMembers(payload, { model: name });
  if (request.isText) {
    const text = JSON.stringify(withMembers(new TextDecoder().decode(request.body), { model: name }));
    if (first === 'body_base64') return withMembers(named, { body: text, body_base64: undefined });
    return withMemberAt(named, [first, ...rest], text);
  }
  return withMemberAt(named, [first, ...rest, 'model'], name);
}
