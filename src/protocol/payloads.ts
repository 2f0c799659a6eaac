import * as z from 'zod';
import { fieldsOf, jsonOrText } from './fields.ts';
import type { JobView } from './jobs.ts';
import { maybe, otherwise } from './schema-words.ts';

/** The most tokens that a chat job generates if it names no limit. */
export const CHAT_MAX_TOKENS = 512;

/**
 * The payload of `chat_completion` and `llm_inference` jobs, with the base README's defaults. The defaults apply to
 * queue jobs only, never to gateway requests. Unknown fields reach the engine.
 */
const WithDefaults = z.looseObject({
  messages: z
    .array(z.looseObject({ role: z.string() }), 'expected an array of {role, content}')
    .min(1, 'at least one message is needed'),
  model: otherwise(z.string(), 'default'),
  temperature: otherwise(z.number().min(0).max(2), 0.7),
  max_tokens: maybe(z.number().int().min(1)),
  top_p: otherwise(z.number().gt(0).max(1), 1),
  frequency_penalty: otherwise(z.number().min(-2).max(2), 0),
  presence_penalty: otherwise(z.number().min(-2).max(2), 0),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
});
/**
 * Adds the default limit only where the caller gave none under either name: some engines would prefer it to the newer
 * name.
 */
export const ChatPayload = WithDefaults.transform((given): z.infer<typeof WithDefaults> => {
  if (given.max_tokens !== undefined || given.max_completion_tokens != null) return given;
  return { ...given, max_tokens: CHAT_MAX_TOKENS };
});
export type ChatPayload = z.infer<typeof ChatPayload>;

/** The engine's answer as the base protocol reports it; other fields of the choices are kept. */
export interface ChatCompletionSummary {
  id: string;
  model: string;
  choices: { index: number; message: Record<string, unknown>; finish_reason: string | null }[];
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
}

/** The result of a stored `engine_request`: the engine's own answer. */
export interface EngineRequestResult {
  [field: string]: unknown;
  status: 'success';
  job_type: 'engine_request';
  processed_at: string;
  /** The engine's response; a body that is no text is in `body_base64`, and `body` is null. */
  response: { status: number; content_type: string | null; body: unknown; body_base64?: string };
}

/** The result of an `engine_request` whose answer went to the relay: only what the queue stores. */
export interface RelayedResult {
  [field: string]: unknown;
  status: 'success';
  job_type: string;
  processed_at: string;
  /** The number of bytes given to the relay. */
  answer_bytes: number;
  http_status: number;
}

const RELAYED = ['status', 'job_type', 'processed_at', 'answer_bytes', 'http_status'];

/** Says whether a result is that of an answer which went to the relay: it has these members and no other. */
export function isRelayedResult(result: object): boolean {
  let count = 0;
  for (const _ in result) count += 1;
  return count === RELAYED.length && RELAYED.every((name) => name in result);
}

const MARK = 0;
const PREFIX_BYTES = 5;

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const short = new Uint8Array(12 * 1024);

/**
 * Packs an `engine_request` as bytes, its body as it came from the caller: a zero byte, the length of the JSON (u32,
 * big-endian), the JSON without `body`, then the body. JSON never begins with a zero byte, so both forms of a payload
 * can be told apart. Frames that carry such a request have the same shape.
 * @param head JSON text of an object
 */
export function pack(head: string, body: Uint8Array): Uint8Array<ArrayBuffer> {
  // A short head is first written into a buffer that all heads share, so that only the packed bytes are new memory.
  const json =
    3 * head.length <= short.byteLength
      ? short.subarray(0, encoder.encodeInto(head, short).written)
      : encoder.encode(head);
  const packed = new Uint8Array(PREFIX_BYTES + json.byteLength + body.byteLength);
  packed[0] = MARK;
  for (let at = 1; at < PREFIX_BYTES; at++) packed[at] = json.byteLength >>> (8 * (4 - at));
  packed.set(json, PREFIX_BYTES);
  packed.set(body, PREFIX_BYTES + json.byteLength);
  return packed;
}

/** Returns the JSON and the body, which is a view, or null if the bytes are not packed, or cut short. */
export function unpack(bytes: Uint8Array): { head: string; body: Uint8Array } | null {
  if (bytes[0] !== MARK || bytes.byteLength < PREFIX_BYTES) return null;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
  const end = PREFIX_BYTES + length;
  if (end > bytes.byteLength) return null;
  return { head: decoder.decode(bytes.subarray(PREFIX_BYTES, end)), body: bytes.subarray(end) };
}

/** Returns a payload in either form as JSON text, or null where it is packed and its body is no UTF-8. */
export function payloadText(bytes: Uint8Array): string | null {
  const request = unpack(bytes);
  if (request === null) return decoder.decode(bytes);
  const { head, body } = request;
  if (body.byteLength === 0) return head;
  const text = strictText(body);
  return text === null ? null : `${head.slice(0, -1)},"body":${JSON.stringify(text)}}`;
}

function strictText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

const DAY_MS = 86_400_000;

const milliseconds = (least: number) => {
  const most = 7 * DAY_MS;
  const message = `expected milliseconds from ${least} to ${most}`;
  return z.number(message).min(least, message).max(most, message);
};

/** RunPod's limits of a job, in milliseconds as there. */
const RunpodPolicy = z.object({
  /** The time limit of one attempt, from when the worker has it. */
  executionTimeout: milliseconds(5000).nullish(),
  /** The time from the submission to the end, waiting included. */
  ttl: milliseconds(10_000).nullish(),
  lowPriority: z.boolean('expected true or false').nullish(),
});

/**
 * The payload of a `runpod` job: what RunPod's serverless endpoints hand to a handler (docs/runpod.md), after the job
 * inputs of worker-vllm 0.2 and 2.x and RunPod's operation reference. worker/run/runpod-input.ts lists the inputs.
 */
export const RunpodPayload = z.looseObject({
  input: z.record(z.string(), z.unknown(), 'expected an object'),
  /** The model for a body that names none. */
  model: z.string().nullish(),
  policy: RunpodPolicy.nullish(),
});
export type RunpodPayload = z.infer<typeof RunpodPayload>;
export type RunpodInput = RunpodPayload['input'];

/** The result of a `runpod` job. */
export interface RunpodResult {
  [field: string]: unknown;
  status: 'success';
  job_type: 'runpod';
  processed_at: string;
  /** Everything the handler yielded, in order: what `/stream/{id}` gives one by one. */
  output: unknown[];
}

/** Returns whether an input asks for its outputs as they come. */
export function runpodStreams(input: RunpodInput): boolean {
  const { openai_route, openai_input, route, body, stream } = input;
  if (openai_input) return asksForStream(openai_input);
  if (openai_route) return false;
  return route ? asksForStream(body) : Boolean(stream);
}

/** Returns whether a body, which may be a text of JSON, asks for a stream. */
function asksForStream(body: unknown): boolean {
  return fieldsOf(typeof body === 'string' ? jsonOrText(body) : body).stream === true;
}

/** The states of a job at RunPod. */
export const RunpodStatus = z.enum([
  'IN_QUEUE',
  'IN_PROGRESS',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'TIMED_OUT',
]);
export type RunpodStatus = z.infer<typeof RunpodStatus>;

/** A job as RunPod's API shows it. Fields that do not apply yet are left out; times in ms. */
export const RunpodJob = z.object({
  id: z.string(),
  status: RunpodStatus,
  /** The time from the submission until a worker got the job. */
  delayTime: z.number().min(0).optional(),
  /** The time from when a worker got the job until its end. */
  executionTime: z.number().min(0).optional(),
  workerId: z.string().optional(),
  /** The number of failed attempts before the newest. */
  retries: z.number().int().min(0).optional(),
  output: z.unknown().optional(),
  error: z.string().optional(),
});
export type RunpodJob = z.infer<typeof RunpodJob>;

export function runpodStatus({ state, error }: JobView): RunpodStatus {
  switch (state) {
    case 'pending':
      return 'IN_QUEUE';
    case 'leased':
      return 'IN_PROGRESS';
    case 'succeeded':
      return 'COMPLETED';
    case 'cancelled':
      return 'CANCELLED';
    case 'expired':
      return 'TIMED_OUT';
    case 'failed':
      // A job with this code has passed its executionTimeout.
      return error?.code === 'deadline' ? 'TIMED_OUT' : 'FAILED';
  }
}

/** Shows a job in RunPod's form. @param output all that the job yielded; null: it is left out */
export function runpodJob(job: JobView, output: unknown[] | null): RunpodJob {
  const status = runpodStatus(job);
  const shown: RunpodJob = { id: job.id, status };
  if (job.leased_at !== null && status !== 'IN_QUEUE') {
    shown.delayTime = between(job.created_at, job.leased_at);
    if (job.settled_at !== null) shown.executionTime = between(job.leased_at, job.settled_at);
    if (job.worker_id !== null) shown.workerId = job.worker_id;
    shown.retries = Math.max(0, job.attempts - (job.worker_id === null ? 0 : 1));
  }
  if (status === 'COMPLETED' && output !== null) shown.output = output;
  if (job.error !== null) shown.error = job.error.message;
  return shown;
}

function between(from: string, to: string): number {
  return Math.max(0, Date.parse(to) - Date.parse(from));
}

/** Returns what a job yielded, as its result has it. */
export function runpodOutput(result: unknown): unknown[] {
  const { output } = fieldsOf(result);
  return Array.isArray(output) ? output : [];
}
