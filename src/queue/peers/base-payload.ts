import {
  BASE_TASKS,
  EngineRequest,
  jsonFields,
  parseJson,
  parseJsonBytes,
  withMembers,
} from '../../protocol/index.ts';

/** The engine routes that a base worker knows, each with the `task` that its payload must name. */
export const TASKS: Record<string, string> = {
  '/v1/chat/completions': BASE_TASKS.chat,
  '/v1/embeddings': BASE_TASKS.embeddings,
  '/v1/audio/speech': BASE_TASKS.speech,
};

/**
 * The types of jobs that stand for the chat task; any other type is the name of its own task. A `task` in the payload
 * takes precedence.
 */
const CHAT_TYPES = new Set(['chat_completion', 'llm_inference']);

/**
 * Returns the payload in the form that a base worker takes (fields of the request beside `task`); null when it cannot
 * run this job.
 */
export function basePayload(jobType: string, payload: string): string | null {
  const request = baseRequest(jobType, payload);
  if (request === null) return null;
  // The payload gets only one `task`: base workers make another job of a payload whose task is empty, and parsers
  // differ in which of two they take.
  const body = withMembers(request.body, { task: undefined });
  const fields = body.trim().slice(1).trimStart();
  return `{"task":${JSON.stringify(request.task)}${fields === '}' ? '' : ','}${fields}`;
}

/** Says whether a base worker can run this payload, so that `basePayload` returns one. */
export function suitsBase(jobType: string, payload: string): boolean {
  return baseRequest(jobType, payload) !== null;
}

/** The bytes of a body that show how it begins, including blanks before it. */
const BEGINNING_BYTES = 64;

/**
 * Says whether a base worker can run a long payload, without parsing all of it: a body that begins as an object and is
 * none is found when a worker fetches it.
 * @param payload JSON of an object
 */
export function longSuitsBase(jobType: string, payload: Uint8Array): boolean {
  if (jobType !== 'engine_request') return jobType !== 'runpod';
  const { path, body, continues } = jsonFields(payload, ['path', 'body', 'continues']);
  if (
    path === undefined ||
    body === undefined ||
    continues !== undefined ||
    TASKS[String(parseJsonBytes(path))] === undefined
  )
    return false;
  return /^"(\\[nrt]|\s)*\{/.test(new TextDecoder().decode(body.subarray(0, BEGINNING_BYTES)));
}

/** Returns the task, and the body as JSON text of an object; null when a base worker cannot run the payload. */
function baseRequest(jobType: string, payload: string): { task: string; body: string } | null {
  if (jobType === 'runpod') return null;
  if (jobType !== 'engine_request') return { task: taskOf(jobType, payload), body: payload };
  const request = parseJson(EngineRequest, payload);
  if (!request.ok) return null;
  const { path, body, continues } = request.value;
  const task = TASKS[path];
  return task === undefined || continues || typeof body !== 'string' || !holdsObject(body)
    ? null
    : { task, body };
}

/** Returns the task that the payload names, or else the one that the type of the job stands for. */
function taskOf(jobType: string, payload: string): string {
  const { task } = jsonFields(new TextEncoder().encode(payload), ['task'], Number.POSITIVE_INFINITY);
  const named = task === undefined ? null : parseJsonBytes(task);
  if (typeof named === 'string' && named !== '') return named;
  return CHAT_TYPES.has(jobType) ? BASE_TASKS.chat : jobType;
}

/**
 * Says whether a text is a JSON object: nobody has checked the body of an engine request before, as it passes through
 * as text.
 */
function holdsObject(text: string): boolean {
  try {
    return text.trimStart().startsWith('{') && typeof JSON.parse(text) === 'object';
  } catch {
    return false;
  }
}
