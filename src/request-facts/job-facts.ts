import {
  BASE_TASKS,
  base64Of,
  beginsObject,
  bytesOfBase64,
  CHAT_MAX_TOKENS,
  CHAT_PATH,
  COMPLETIONS_PATH,
  checkUtf8,
  ENGINE_ROUTES,
  jsonFields,
  parseJsonBytes,
  withMemberAt,
  withMembers,
} from '../protocol/index.ts';
import { type BodyFacts, bodyFacts } from './body-facts.ts';
import { encoded, isNull, NO_BODY, RequestFault, readingJson, textIn } from './json.ts';
import { type Lengths, lengthsOf } from './lengths.ts';

/**
 * The one request that a stored job makes to an engine, out of its payload, in any of its forms. The worker makes the
 * same request; so models, limits and priorities are judged by what the engine will read.
 */
interface JobRequest {
  /** The path on the engine; null: the payload names none that a worker could request. */
  path: string | null;
  /** The body in UTF-8; empty: none. */
  body: Uint8Array;
  /** The content type; null: none is named, which means JSON. */
  contentType: string | null;
  /**
   * The names, from the outermost, under which the payload holds the body, or those fields of the body that the payload
   * has.
   */
  place: readonly string[];
  /** True if the payload holds the body as a text. */
  isText: boolean;
  /** The model that the worker puts into a body that names none; null: whatever the engine serves. */
  otherwiseModel: string | null;
  /** The bound of the answer that the worker puts into a body that has none; null: it puts none. */
  otherwiseTokens: number | null;
  /** The priorities that the job requests beside the body, such as in each `X-Vllm-Priority` of its headers. */
  priorities: readonly unknown[];
}

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

/**
 * Returns the payload with another body for the engine, in the form in which the payload had the body.
 * @param payload JSON of an object
 * @param facts of this payload
 */
export function withBody(
  payload: string,
  { request, body: { kind } }: JobFacts,
  body: Uint8Array<ArrayBuffer>,
): string {
  const replaced = withBodyAt(payload, request, body);
  if (request.otherwiseModel === null || kind !== 'json') return replaced;
  // A payload that names the model beside its body must name the same one.
  const { model } = jsonFields(body, ['model']);
  return model === undefined ? replaced : withMembers(replaced, { model });
}

function withBodyAt(payload: string, request: JobRequest, body: Uint8Array<ArrayBuffer>): string {
  const [first, ...rest] = request.place;
  if (first === undefined) return new TextDecoder().decode(body);
  if (first === 'body_base64') return withMembers(payload, { body_base64: JSON.stringify(base64Of(body)) });
  const text = new TextDecoder().decode(body);
  if (request.isText) return withMemberAt(payload, [first, ...rest], JSON.stringify(text));
  if (rest[0] !== 'sampling_params') return withMemberAt(payload, [first, ...rest], text);
  // A prompt stands beside the other fields of the body.
  const { messages, prompt } = jsonFields(body, ['messages', 'prompt']);
  const others = withMembers(text, { messages: undefined, prompt: undefined });
  return [
    ['messages', messages],
    ['prompt', prompt],
    ['sampling_params', others],
  ].reduce((whole, [name, value]) => withMemberAt(whole, [first, name as string], value), payload);
}

const [QUOTE, OPEN_BRACKET, OPEN_BRACE] = [0x22, 0x5b, 0x7b];
const LISTS_AND_TEXTS = [QUOTE, OPEN_BRACKET, OPEN_BRACE];

const INPUT = [
  'openai_input',
  'openai_route',
  'route',
  'body',
  'messages',
  'prompt',
  'sampling_params',
  'apply_chat_template',
  'use_openai_format',
  'priority',
] as const;
type Input = Partial<Record<(typeof INPUT)[number], Uint8Array>>;

/**
 * Returns the request that an input of RunPod's makes, in the order in which RunPod's worker reads it: `openai_input`
 * or `openai_route`, then `route`, then `messages` or `prompt`. A body may be JSON, or a text of JSON.
 * @param payload JSON of `{input, model?}`
 * @throws RequestFault
 */
function runpodRequest(payload: Uint8Array): JobRequest {
  const { input, model } = readingJson(() => jsonFields(payload, ['input', 'model']));
  const fields: Input = beginsObject(input) ? readingJson(() => jsonFields(input, INPUT)) : {};
  const { openai_input, openai_route, route, body } = fields;
  const isOpenAI = isTrue(openai_input) || isTrue(openai_route);
  if (isTrue(openai_input) && isTrue(body)) {
    throw new RequestFault('two_bodies', 'input: expected openai_input or body, not both.');
  }
  const common = {
    contentType: null,
    otherwiseModel: textIn(model) || null,
    otherwiseTokens: null,
    // No worker reads this priority, so its sender expects what does not happen: it is reported to be judged.
    priorities: fields.priority ? [readingJson(() => parseJsonBytes(fields.priority!))] : [],
  };
  if (isOpenAI) {
    const path = openai_route === undefined ? CHAT_PATH : textIn(openai_route);
    return { ...common, path, ...bodyOf(openai_input), place: ['input', 'openai_input'] };
  }
  if (isTrue(route)) return { ...common, path: textIn(route), ...bodyOf(body), place: ['input', 'body'] };
  return { ...common, isText: false, ...shorthand(fields), place: ['input', 'sampling_params'] };
}

function bodyOf(value: Uint8Array | undefined): Pick<JobRequest, 'body' | 'isText'> {
  if (!isGiven(value)) return { body: NO_BODY, isText: false };
  const text = textIn(value);
  return text === null ? { body: value, isText: false } : { body: encoded(text), isText: true };
}

/**
 * Makes the request of `messages` or `prompt`. The sampling parameters are fields of the body; parameters beside them
 * in the input are not.
 */
function shorthand(fields: Input): Pick<JobRequest, 'path' | 'body'> {
  const { messages, prompt, sampling_params, apply_chat_template, use_openai_format } = fields;
  const given = isGiven(messages) ? messages : isGiven(prompt) ? prompt : undefined;
  if (given === undefined) return { path: null, body: NO_BODY };
  const isChat = given[0] === OPEN_BRACKET || isTrue(apply_chat_template) || isTrue(use_openai_format);
  const sampling = beginsObject(sampling_params) ? sampling_params : encoded('{}');
  return {
    path: isChat ? CHAT_PATH : COMPLETIONS_PATH,
    body: readingJson(() => withMembers(sampling, { [isChat ? 'messages' : 'prompt']: given })),
  };
}

function isGiven(json: Uint8Array | undefined): json is Uint8Array {
  return json !== undefined && !isNull(json);
}

/**
 * Says whether a value counts as true in the worker's JavaScript: objects and lists do, even empty ones, and 0 does
 * not, however long it is written.
 */
function isTrue(json: Uint8Array | undefined): boolean {
  if (json === undefined) return false;
  const [first = 0] = json;
  return LISTS_AND_TEXTS.includes(first)
    ? json.byteLength > 2 || first !== QUOTE
    : Boolean(readingJson(() => parseJsonBytes(json)));
}
