import type * as z from 'zod';
import { isPlainPath } from './engine-routes.ts';
import { isObject } from './fields.ts';
import {
  CONTENT_TYPE,
  ENGINE_METHODS,
  EngineRequest,
  JOB_ID,
  JOB_TYPE,
  JobSubmission,
  MAX_PATH_CHARACTERS,
  MOST_CONTENT_TYPE_CHARACTERS,
  MOST_DEADLINE_SECONDS,
  MOST_HEADER_CHARACTERS,
} from './jobs.ts';
import { MAX_ATTEMPTS } from './limits.ts';
import { type Parsed, parseFrames, parseJson, parseValue } from './parse.ts';
import type { QueueFrame } from './queue-frames.ts';
import { type Check, isExactly, shape, taken } from './shape.ts';
import { MOST_TRACESTATE_CHARACTERS } from './trace-context.ts';
import { WorkerFrame } from './worker-frames.ts';

/**
 * The frames of every job, and what an engine is asked for, checked without zod, which is several times slower. A check
 * takes what its schema surely takes, and gives what the schema would give; for everything else it gives null, and the
 * schema decides. Both are held against the same cases in test/rules/protocol/quick-frames.test.ts.
 */

const MOST_ID_CHARACTERS = 256;
const MOST_MODEL_CHARACTERS = 512;
const MOST_ACCOUNT_CHARACTERS = 4096;
const MOST_STREAM_ID = 0xffff_ffff;
const METHODS: ReadonlySet<unknown> = new Set(ENGINE_METHODS);
const ACK_OUTCOMES: ReadonlySet<unknown> = new Set(['accepted', 'stale', 'unknown']);

const isText: Check = (value) => typeof value === 'string';
const isId: Check = (value) => typeof value === 'string' && value.length > 0;
const isShortId: Check = (value) => isId(value) && (value as string).length <= MOST_ID_CHARACTERS;
const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value);
const isPositive: Check = (value) => isNumber(value) && (value as number) > 0;
const isNotNegative: Check = (value) => isNumber(value) && (value as number) >= 0;
const isShare: Check = (value) => isNotNegative(value) && (value as number) <= 1;
const isInteger: Check = (value) => Number.isSafeInteger(value);
const isCount: Check = (value) => isInteger(value) && (value as number) >= 0;
const isAttempt: Check = (value) => isInteger(value) && (value as number) >= 1;
const isAccount: Check = (value) => typeof value === 'string' && value.length <= MOST_ACCOUNT_CHARACTERS;
const isStreamId: Check = (value) => isCount(value) && (value as number) <= MOST_STREAM_ID;

const isTextOf =
  (most: number): Check =>
  (value) =>
    isText(value) && (value as string).length <= most;

const isEnginePath = isTextOf(MAX_PATH_CHARACTERS);
const isContentType = isTextOf(MOST_CONTENT_TYPE_CHARACTERS);
const isHeaderValue = isTextOf(MOST_HEADER_CHARACTERS.value);

const TRACE_FIELDS = {
  traceparent: isTextOf(55),
  tracestate: isTextOf(MOST_TRACESTATE_CHARACTERS),
  is_link: (value: unknown) => typeof value === 'boolean',
  queued_ms: isNotNegative,
  attempts_left: isCount,
  previous_fence: isCount,
};
const TRACE = shape(TRACE_FIELDS, Object.keys(TRACE_FIELDS));
const JOB = shape(
  {
    type: (value) => value === 'job',
    job_id: isId,
    mode: (value) => value === 'transient' || value === 'persisted',
    config_id: isText,
    payload: isObject,
    fence_token: isCount,
    payload_url: isText,
    result_upload_url: isText,
    job_type: isText,
    attempt: isAttempt,
    deadline_ms: isNumber,
    lease_seconds: isPositive,
    trace: (value) => isExactly(TRACE, value),
    stream_id: isStreamId,
    account: isAccount,
  },
  [
    'config_id',
    'payload_url',
    'result_upload_url',
    'job_type',
    'attempt',
    'deadline_ms',
    'lease_seconds',
    'trace',
    'stream_id',
    'account',
  ],
);
const ACK = shape({
  type: (value) => value === 'ack',
  job_id: isId,
  fence_token: isInteger,
  outcome: (value) => ACK_OUTCOMES.has(value),
});
const LOAD = shape({
  type: (value) => value === 'load',
  running: isNotNegative,
  waiting: isNotNegative,
  kv_cache_usage: isShare,
  slots_free: isCount,
});
const TIMING = shape({ started_ms: isNotNegative, first_token_ms: isNotNegative }, [
  'started_ms',
  'first_token_ms',
]);
const USAGE = shape(
  {
    prompt_tokens: isCount,
    completion_tokens: isCount,
    cached_tokens: isCount,
    reasoning_tokens: isCount,
    estimated: (value) => typeof value === 'boolean',
    model: (value) => typeof value === 'string' && value.length <= MOST_MODEL_CHARACTERS,
  },
  ['cached_tokens', 'reasoning_tokens', 'estimated', 'model'],
);
const JOB_RESULT = shape(
  {
    type: (value) => value === 'job_result',
    job_id: isShortId,
    fence_token: isCount,
    result: isObject,
    timing: (value) => isExactly(TIMING, value),
    usage: (value) => isExactly(USAGE, value),
    account: isAccount,
  },
  ['timing', 'usage', 'account'],
);

const ENGINE_REQUEST = shape(
  {
    method: (value) => METHODS.has(value),
    path: (value) => isEnginePath(value) && isPlainPath(value as string),
    body: (value) => isText(value) || value instanceof Uint8Array,
    body_base64: () => false,
    content_type: (value) => isContentType(value) && CONTENT_TYPE.test(value as string),
    headers: (value) => isObject(value) && Object.entries(value as object).every(isHeader),
  },
  ['body', 'body_base64', 'content_type', 'headers'],
);

const SUBMISSION = shape(
  {
    id: (value) => isText(value) && JOB_ID.test(value as string) && value !== '.' && value !== '..',
    job_type: (value) => isText(value) && JOB_TYPE.test(value as string),
    payload: isObject,
    config_id: isShortId,
    priority: (value) => isInteger(value) && Math.abs(value as number) <= 1000,
    max_attempts: (value) => isAttempt(value) && (value as number) <= 100,
    deadline_seconds: (value) => isPositive(value) && (value as number) <= MOST_DEADLINE_SECONDS,
    stream: (value) => typeof value === 'boolean',
    webhook: isTextOf(2048),
  },
  ['id', 'config_id', 'priority', 'max_attempts', 'deadline_seconds', 'stream', 'webhook'],
);

function isHeader([name, value]: [string, unknown]): boolean {
  return name.length <= MOST_HEADER_CHARACTERS.name && isHeaderValue(value);
}

/** One frame of a worker. */
export function parseWorkerFrame(text: string): Parsed<WorkerFrame> {
  return parseJson(WorkerFrame, text, quickWorkerFrame);
}

/** The frames of a worker's message. */
export function parseWorkerFrames(text: string): Parsed<WorkerFrame>[] {
  return parseFrames(WorkerFrame, text, quickWorkerFrame);
}

/** The payload of an `engine_request`. */
export function parseEngineRequest(payload: unknown): Parsed<EngineRequest> {
  const value = quickEngineRequest(payload);
  return value === null ? parseValue(EngineRequest, payload) : { ok: true, value };
}

/** What a program submits. @param data parsed JSON */
export function parseSubmission(data: unknown): Parsed<JobSubmission> {
  const value = quickSubmission(data);
  return value === null ? parseValue<JobSubmission>(JobSubmission, data) : { ok: true, value };
}

export function quickSubmission(data: unknown): JobSubmission | null {
  const given = isObject(data) ? taken<z.input<typeof JobSubmission>>(SUBMISSION, data) : null;
  return given && { priority: 0, max_attempts: MAX_ATTEMPTS, ...given };
}

/** One whose body is no text is left to the schema. @param data parsed JSON, or a frame that carries bytes */
export function quickEngineRequest(data: unknown): EngineRequest | null {
  return isObject(data) ? taken<EngineRequest>(ENGINE_REQUEST, data) : null;
}

/** A `job` or an `ack`. @param data parsed JSON */
export function quickQueueFrame(data: unknown): QueueFrame | null {
  const type = typeOf(data);
  if (type === 'job') return taken<QueueFrame>(JOB, data);
  return type === 'ack' ? taken<QueueFrame>(ACK, data) : null;
}

/** A `job_result` or a `load`. @param data parsed JSON */
export function quickWorkerFrame(data: unknown): WorkerFrame | null {
  const type = typeOf(data);
  if (type === 'job_result') return taken<WorkerFrame>(JOB_RESULT, data);
  return type === 'load' ? taken<WorkerFrame>(LOAD, data) : null;
}

function typeOf(data: unknown): unknown {
  return isObject(data) ? (data as { type?: unknown }).type : undefined;
}
