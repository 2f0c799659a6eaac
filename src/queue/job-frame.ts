import {
  BASE_TASKS,
  ENGINE_ROUTES,
  EngineRequest,
  type FailureCode,
  fitsUtf8,
  type Job,
  jsonFields,
  pack,
  parseJson,
  parseJsonBytes,
  routeAt,
  unpack,
  withMembers,
} from '../protocol/index.ts';

/**
 * A `job` frame without its payload, which is JSON text that goes in as it is, never parsed on the way. What is
 * undefined is left out of the frame. With `payload_url`, the worker fetches the payload from there.
 */
export type JobHead = Omit<Job, 'payload'> & { job_type: string };

/** The reason why a worker cannot be given a job. */
export interface UnfitJob {
  message: string;
  code: Extract<FailureCode, 'too_large' | 'unsupported_by_worker'>;
}

const TOO_LARGE: UnfitJob = {
  message: 'the payload is over 1 MiB, more than the worker that serves this model takes in one frame',
  code: 'too_large',
};

/** The text in place of a payload that was left out. */
const LEFT_OUT = '{}';

const CLOSING_BRACE = 0x7d;

/** Writes the frame for an extended peer. */
export function extendedJobFrame(head: JobHead, payload: string): string {
  return `${beginning(head)}${head.payload_url === undefined ? payload : LEFT_OUT}}`;
}

/**
 * Writes the frame for an extended peer in UTF-8, from a payload kept as bytes, without making a string of it. A packed
 * payload gives a packed frame.
 */
export function extendedJobBytes(head: JobHead, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const request = unpack(payload);
  if (request) return pack(`${beginning(head)}${request.head}}`, request.body);
  const before = new TextEncoder().encode(beginning(head));
  const bytes = new Uint8Array(before.byteLength + payload.byteLength + 1);
  bytes.set(before);
  bytes.set(payload, before.byteLength);
  bytes[bytes.byteLength - 1] = CLOSING_BRACE;
  return bytes;
}

/** Writes a frame up to its payload. */
function beginning(head: Partial<JobHead>): string {
  return `${JSON.stringify(head).slice(0, -1)},"payload":`;
}

/**
 * Writes the frame for a worker that speaks only the base protocol and knows none of the extension fields.
 * @param given the payload; empty if it is not at hand
 * @param suitsBase for a payload that is not at hand: whether `basePayload` returns one
 * @param mostBytes the largest frame that the worker takes
 * @returns the frame's text, or why the worker cannot be given the job
 */
export function baseJobFrame(
  head: JobHead,
  given: string,
  suitsBase: boolean,
  mostBytes: number,
): { text: string } | UnfitJob {
  const payload = given === '' ? '' : basePayload(head.job_type, given);
  if (payload === null || !suitsBase) return unsupported(head.job_type, given);
  const { type, job_id, mode, config_id, fence_token, payload_url, result_upload_url } = head;
  const before = beginning({ type, job_id, mode, config_id, fence_token, payload_url, result_upload_url });
  const text = `${before}${payload_url === undefined ? payload : LEFT_OUT}}`;
  if ((given === '' && payload_url === undefined) || !fitsUtf8(text, mostBytes - 1)) return TOO_LARGE;
  return { text };
}

/** Explains that a base worker knows its table of tasks and nothing else. */
function unsupported(job_type: string, payload: string): UnfitJob {
  const request = parseJson(EngineRequest, payload);
  const what = request.ok
    ? `${request.value.method} ${request.value.path} with this body`
    : `${job_type} jobs of this kind`;
  const routes = BASE_ROUTES.join(', ');
  return {
    message: `the worker that serves this model cannot run ${what}: it speaks only the base protocol, which knows ${routes} with a JSON object`,
    code: 'unsupported_by_worker',
  };
}

/** The engine routes that a base worker knows. */
const BASE_ROUTES = ENGINE_ROUTES.filter(({ task }) => task !== null).map(({ path }) => path);

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
    taskAt(String(parseJsonBytes(path))) === null
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
  const task = taskAt(path);
  return task === null || continues || typeof body !== 'string' || !holdsObject(body) ? null : { task, body };
}

/** Returns the task by which a base worker knows a route; null: it does not know the route. */
function taskAt(path: string): string | null {
  return routeAt(path)?.task ?? null;
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
