import {
  BASE_TASKS,
  ENGINE_ROUTES,
  EngineRequest,
  type FailureCode,
  fitsUtf8,
  type JobTrace,
  jsonFields,
  type PartialAnswer,
  pack,
  parseJson,
  parseJsonBytes,
  routeAt,
  unpack,
  withMembers,
} from '../protocol/index.ts';

/** The contents of a `job` frame. `payload` is JSON text that goes in as it is, never parsed on the way. */
export interface JobFrame {
  job_id: string;
  mode: 'transient' | 'persisted';
  config_id: string;
  fence_token: number;
  payload: string;
  job_type: string;
  attempt: number;
  lease_seconds: number;
  deadline_ms: number | null;
  stream_id: number | null;
  /** The address to fetch the payload from, which the frame then leaves out; null: the frame holds the payload. */
  payload_url: string | null;
  /** The address to put a large result at; null: none. */
  result_upload_url: string | null;
  /** The account that the job's tokens are counted for, which the worker returns; null: it need not. */
  account: string | null;
  priority: number;
  /** The part of the answer that an earlier attempt generated; null: none is kept. */
  partial: PartialAnswer | null;
  /** The job's trace; null: the frame says nothing of one. */
  trace: JobTrace | null;
}

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
export function extendedJobFrame(frame: JobFrame): string {
  return `${extendedHead(frame)}${frame.payload_url === null ? frame.payload : LEFT_OUT}}`;
}

/**
 * Writes the frame for an extended peer in UTF-8, from a payload kept as bytes, without making a string of it. A packed
 * payload gives a packed frame.
 */
export function extendedJobBytes(frame: JobFrame, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const request = unpack(payload);
  if (request) return pack(`${extendedHead(frame)}${request.head}}`, request.body);
  const head = new TextEncoder().encode(extendedHead(frame));
  const bytes = new Uint8Array(head.byteLength + payload.byteLength + 1);
  bytes.set(head);
  bytes.set(payload, head.byteLength);
  bytes[bytes.byteLength - 1] = CLOSING_BRACE;
  return bytes;
}

/** Writes the frame up to the payload. */
function extendedHead(frame: JobFrame): string {
  const {
    payload,
    deadline_ms,
    stream_id,
    payload_url,
    result_upload_url,
    account,
    priority,
    partial,
    trace,
    ...rest
  } = frame;
  const head = JSON.stringify({
    type: 'job',
    ...rest,
    ...(deadline_ms === null ? {} : { deadline_ms }),
    ...(stream_id === null ? {} : { stream_id }),
    ...(account === null ? {} : { account }),
    ...(priority === 0 ? {} : { priority }),
    ...(partial === null ? {} : { partial }),
    ...(trace === null ? {} : { trace }),
    ...references(frame),
  });
  return `${head.slice(0, -1)},"payload":`;
}

/**
 * Writes the frame for a worker that speaks only the base protocol and knows none of the extension fields.
 * @param suitsBase for a payload that is not at hand: whether `basePayload` returns one
 * @param mostBytes the largest frame that the worker takes
 * @returns the frame's text, or why the worker cannot be given the job
 */
export function baseJobFrame(
  frame: JobFrame,
  suitsBase: boolean,
  mostBytes: number,
): { text: string } | UnfitJob {
  const payload = frame.payload === '' ? '' : basePayload(frame.job_type, frame.payload);
  if (payload === null || !suitsBase) return unsupported(frame);
  const head = JSON.stringify({
    type: 'job',
    job_id: frame.job_id,
    mode: frame.mode,
    config_id: frame.config_id,
    fence_token: frame.fence_token,
    ...references(frame),
  });
  const text = `${head.slice(0, -1)},"payload":${frame.payload_url === null ? payload : LEFT_OUT}}`;
  if ((frame.payload === '' && frame.payload_url === null) || !fitsUtf8(text, mostBytes - 1))
    return TOO_LARGE;
  return { text };
}

/** Explains that a base worker knows its table of tasks and nothing else. */
function unsupported({ job_type, payload }: JobFrame): UnfitJob {
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

function references({ payload_url, result_upload_url }: JobFrame) {
  return {
    ...(payload_url === null ? {} : { payload_url }),
    ...(result_upload_url === null ? {} : { result_upload_url }),
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
